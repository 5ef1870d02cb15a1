//! One limit in front of a service: who is asked for, what is charged, what is enforced.

use core::fmt;
use std::sync::Arc;

use http::StatusCode;

use crate::decision::Decision;
use crate::key::KeyHash;
use crate::limit::Limit;
use crate::set::Ask;

use super::answer::{Denial, Reason};
use super::fields::{FieldName, Fields};
use super::{Head, IntoLimit, KeyError, KeyExtractor, keys};

/// The key of all requests without one, apart from every byte string.
const SHARED_KEY: u128 = u128::MAX;

/// What becomes of a request in which there is no key ([`KeyError::NoKey`], [`KeyError::NoPeer`]).
///
/// A request whose key is there and can not be read is refused whatever the policy is: otherwise
/// whoever spoils the key would be let off the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingKey {
    /// It is refused with what the [`KeyError`] says: 400, or 500 where the server is to blame.
    #[default]
    Refuse,
    /// It is denied as if the limit were exhausted: 429, without a time to retry.
    Deny,
    /// It shares one key with all others that have none.
    Share,
    /// It is not limited: whoever leaves the key out is let off.
    Allow,
}

/// A named limit on requests.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_engine::tower::{MissingKey, RequestLimit, keys};
/// use tidegate_engine::{Limiter, Quota};
///
/// let limiter = Arc::new(Limiter::builder(Quota::per_minute(600)).build()?);
/// let limit = RequestLimit::new("per-key", Arc::clone(&limiter), keys::api_key())
///     .missing_key(MissingKey::Share)
///     .cost(|head| if head.method() == "POST" { 5 } else { 1 });
/// limiter.reset("the API key of a friend"); // the same limiter, elsewhere
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[must_use = "a limit does nothing until a layer enforces it"]
pub struct RequestLimit {
    name: Box<str>,
    field_name: FieldName,
    limit: Arc<dyn Limit>,
    key: Box<dyn KeyExtractor>,
    missing: MissingKey,
    cost: Option<Box<Cost>>,
}

type Cost = dyn Fn(&Head<'_>) -> u64 + Send + Sync;

impl RequestLimit {
    /// A limit of one unit a request on the key that `key` finds, enforced by `limit`: a [`Limiter`](crate::Limiter), or
    /// whatever else can stand in a [`LimitSet`](crate::LimitSet), by value or in an [`Arc`]. One without keys is a limit on
    /// all requests together, of which those without a key are refused all the same: see [`RequestLimit::shared`].
    ///
    /// `name` is what clients read in the header fields; what is not printable ASCII in it becomes
    /// a `?` there.
    pub fn new(name: &str, limit: impl IntoLimit, key: impl KeyExtractor) -> Self {
        Self {
            name: name.into(),
            field_name: FieldName::new(name),
            limit: limit.into_limit(),
            key: Box::new(key),
            missing: MissingKey::default(),
            cost: None,
        }
    }

    /// A limit on all requests together, for a limit without keys: no key is looked for, so none can be missing. A limit that
    /// has keys counts all requests on one of them.
    ///
    /// ```
    /// use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    /// use tidegate_engine::{Limiter, Quota, Single};
    ///
    /// let per_key = Limiter::builder(Quota::per_minute(600)).build()?;
    /// let in_all = Single::new(Quota::per_second(10_000))?;
    /// let layer = RateLimitLayer::all([
    ///     RequestLimit::new("per-key", per_key, keys::api_key()),
    ///     RequestLimit::shared("in-all", in_all),
    /// ]);
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared(name: &str, limit: impl IntoLimit) -> Self {
        Self::new(name, limit, keys::constant())
    }

    /// What becomes of a request without a key; [`MissingKey::Refuse`] unless set.
    pub fn missing_key(self, policy: MissingKey) -> Self {
        Self { missing: policy, ..self }
    }

    /// How many units a request costs; 1 unless set. A cost of 0 takes nothing and passes, unless debt has been
    /// [charged](crate::Limiter::charge) beyond the burst; a cost beyond the burst is always denied, without a time to retry.
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Box::new(cost)), ..self }
    }

    /// What clients are told the limit is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a request asks of the limit, `None` where it is not limited; or why nothing can be asked.
    pub(super) fn ask(&self, head: &Head<'_>) -> Result<Option<Ask<'_>>, Denial<'_>> {
        let Some(key) = self.key(head)? else { return Ok(None) };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(head));
        Ok(Some(Ask::new(&*self.limit, key, cost).named(&self.name)))
    }

    /// Adds to the fields what a client is told of a decision.
    pub(super) fn tell(&self, fields: &mut Fields, decision: &Decision) {
        fields.limit(&self.field_name, self.limit.refill_time(), decision);
    }

    fn key(&self, head: &Head<'_>) -> Result<Option<KeyHash>, Denial<'_>> {
        let error = match self.key.key(head, self.limit.hasher()) {
            Ok(key) => return Ok(Some(key)),
            Err(error) => error,
        };
        let status = match (error, self.missing) {
            (KeyError::NoKey | KeyError::NoPeer, MissingKey::Allow) => return Ok(None),
            (KeyError::NoKey | KeyError::NoPeer, MissingKey::Share) => {
                return Ok(Some(self.limit.hasher().hash_u128(SHARED_KEY)));
            }
            (KeyError::NoKey | KeyError::NoPeer, MissingKey::Deny) => StatusCode::TOO_MANY_REQUESTS,
            _ => error.status(),
        };
        Err(Denial::new(&self.name, Reason::Key(error), status))
    }
}

impl fmt::Debug for RequestLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLimit")
            .field("name", &self.name)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}
