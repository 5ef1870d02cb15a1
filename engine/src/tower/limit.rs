//! One limit in front of a service: its key, its cost, and the limiter that enforces it.

use core::fmt;
use std::sync::Arc;

use http::StatusCode;

use crate::base::decision::Decision;
use crate::base::headers::LimitName;
use crate::base::key::KeyHash;
use crate::contract::limit::Limit;
use crate::contract::set::Ask;

use super::answer::{Denial, Reason};
use super::fields::Fields;
use super::{Head, IntoLimit, KeyError, KeyExtractor, keys};

/// The key of all requests without one, distinct from every byte string.
const SHARED_KEY: u128 = u128::MAX;

/// What happens to a request without a key ([`KeyError::NoKey`], [`KeyError::NoPeer`]).
///
/// A request with a key that cannot be used is refused under every policy: otherwise a client could
/// evade the limit by malforming its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingKey {
    /// It is refused with [`KeyError::status`]: 400, or 500 where the server is at fault.
    #[default]
    Refuse,
    /// It is denied as if the limit were exhausted: 429, without a time to retry.
    Deny,
    /// It shares one key with all others that have none.
    Share,
    /// It is not limited: a client evades the limit by omitting the key.
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
/// limiter.reset("some API key"); // the same limiter, elsewhere
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[must_use = "a limit does nothing until a layer enforces it"]
pub struct RequestLimit {
    name: Box<str>,
    field_name: LimitName,
    limit: Arc<dyn Limit>,
    key: Box<dyn KeyExtractor>,
    missing: MissingKey,
    cost: Option<Box<Cost>>,
}

type Cost = dyn Fn(&Head<'_>) -> u64 + Send + Sync;

impl RequestLimit {
    /// A limit of one unit per request on the key that `key` finds, enforced by `limit`: a
    /// [`Limiter`](crate::Limiter), or any other limit that a [`LimitSet`](crate::LimitSet) takes,
    /// by value or in an [`Arc`]. A limit without keys applies to all requests together, and
    /// requests without a key are still refused: see [`RequestLimit::shared`].
    ///
    /// `name` appears in the header fields; a character that is not printable ASCII becomes a `?`
    /// there.
    pub fn new(name: &str, limit: impl IntoLimit, key: impl KeyExtractor) -> Self {
        Self {
            name: name.into(),
            field_name: LimitName::new(name),
            limit: limit.into_limit(),
            key: Box::new(key),
            missing: MissingKey::default(),
            cost: None,
        }
    }

    /// A limit on all requests together, for a limit without keys: no key is extracted, so none can
    /// be missing. A limit that has keys counts all requests on one of them.
    ///
    /// ```
    /// use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    /// use tidegate_engine::{DirectLimiter, Limiter, Quota};
    ///
    /// let per_key = Limiter::builder(Quota::per_minute(600)).build()?;
    /// let in_all = DirectLimiter::new(Quota::per_second(10_000))?;
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

    /// What happens to a request without a key; [`MissingKey::Refuse`] unless set.
    pub fn missing_key(self, policy: MissingKey) -> Self {
        Self { missing: policy, ..self }
    }

    /// How many units a request costs; 1 unless set. A cost of 0 takes nothing and passes, unless
    /// debt has been [charged](crate::Limiter::charge) beyond the burst; a cost beyond the burst is
    /// always denied, without a time to retry.
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Box::new(cost)), ..self }
    }

    /// The limit's name, as clients see it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a request asks of the limit, `None` where it is not limited; or why it is refused.
    pub(super) fn ask(&self, head: &Head<'_>) -> Result<Option<Ask<'_>>, Denial<'_>> {
        let Some(key) = self.key(head)? else { return Ok(None) };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(head));
        Ok(Some(Ask::new(&*self.limit, key, cost).named(&self.name)))
    }

    /// Adds a decision to the header fields.
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
