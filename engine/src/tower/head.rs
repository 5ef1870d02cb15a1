//! What of a request is looked at.

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The head of a request, whatever its body: all that limits look at.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    /// The head of `request`.
    #[must_use]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// The target.
    #[must_use]
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// The header fields.
    #[must_use]
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// What the server and the layers in front have attached: the peer's address, the user that
    /// has been authenticated, the route that matched.
    #[must_use]
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }
}
