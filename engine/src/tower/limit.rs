//! One limit in front of a service: its key, its cost, and the limiter that enforces it.

use core::fmt;
use std::sync::Arc;

use http::StatusCode;

use crate::base::decision::Decision;
use crate::base::headers::LimitName;
use crate::base::key::KeyHash;
use crate::contract::limit::{Limit, Subject};
use crate::contract::set::Ask;
use crate::rule::quota::{Quota, QuotaError};

use super::denial::{LimitRefusal, Reason};
use super::fields::Fields;
use super::{Head, IntoLimit, IntoQuotaLimit, KeyError, KeyExtractor, QuotaLimit as _, keys};

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
    cost: Option<Box<Units>>,
    left: Option<Box<Units>>,
    quota: Option<Box<RequestQuota>>,
}

/// Units that follow from a request.
type Units = dyn Fn(&Head<'_>) -> u64 + Send + Sync;

/// The quota of a request, `None` for the limit's own; one that can be enforced.
type RequestQuota = dyn Fn(&Head<'_>) -> Result<Option<Quota>, QuotaError> + Send + Sync;

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
            left: None,
            quota: None,
        }
    }

    /// As [`RequestLimit::new`], with a quota for each request: the one that `quota` returns, such
    /// as the plan of a customer, or the limit's own for `None`. For a limit whose rule is a
    /// [`Quota`] or a `LiveQuota`, and a [`Shadow`](crate::Shadow) of one.
    ///
    /// `quota` is called once for each request that has a key, and sees the request's extensions,
    /// where an outer layer may have put the plan. A key has one debt, so another plan takes effect
    /// with the next request and what was used before still counts, as
    /// [`WithQuota`](crate::limiter::WithQuota#keys-under-several-quotas) states. The header fields
    /// describe the quota of the request.
    ///
    /// A quota that cannot be enforced refuses the request with 500, in gRPC `INTERNAL`, and
    /// charges nothing: see [`Reason::Quota`].
    ///
    /// ```
    /// use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// /// Attached to a request by the layer that authenticates it.
    /// #[derive(Clone)]
    /// struct Tenant {
    ///     id: u64,
    ///     plan: Option<Quota>,
    /// }
    ///
    /// let limiter = Limiter::new(Quota::per_minute(60))?; // for tenants without a plan
    /// let limit = RequestLimit::with_quotas(
    ///     "per-tenant",
    ///     limiter,
    ///     keys::custom(|head| head.extensions().get::<Tenant>().map(|tenant| tenant.id)),
    ///     |head| head.extensions().get::<Tenant>()?.plan,
    /// );
    /// # let _ = RateLimitLayer::new(limit);
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    ///
    /// Windows have no debt, which several quotas could share:
    /// ```compile_fail,E0277
    /// # use tidegate_engine::tower::{RequestLimit, keys};
    /// # use tidegate_engine::{FixedWindow, Limiter};
    /// # let limiter = Limiter::new(FixedWindow::per_minute(60)).unwrap();
    /// let limit = RequestLimit::with_quotas("windows", limiter, keys::api_key(), |_| None);
    /// ```
    pub fn with_quotas(
        name: &str,
        limit: impl IntoQuotaLimit,
        key: impl KeyExtractor,
        quota: impl Fn(&Head<'_>) -> Option<Quota> + Send + Sync + 'static,
    ) -> Self {
        let limit = limit.into_quota_limit();
        let enforced = Arc::clone(&limit);
        let quota = move |head: &Head<'_>| match quota(head) {
            Some(quota) => enforced.can_enforce(&quota).map(|()| Some(quota)),
            None => Ok(None),
        };
        Self { quota: Some(Box::new(quota)), ..Self::new(name, limit, key) }
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

    /// How many units a request leaves to more important ones: it is let through only while they
    /// would fit on top of its cost, see
    /// [`Limiter::check_with_headroom`](crate::Limiter::check_with_headroom). 0 unless set.
    ///
    /// ```
    /// use tidegate_engine::tower::{RequestLimit, keys};
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// let limiter = Limiter::new(Quota::per_minute(600))?;
    /// // Exports use what people leave: the last 150 units are not for them.
    /// let limit = RequestLimit::new("per-key", limiter, keys::api_key())
    ///     .headroom(|head| if head.uri().path().starts_with("/export") { 150 } else { 0 });
    /// # let _ = limit;
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    #[doc(alias = "priority")]
    pub fn headroom(self, units: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        Self { left: Some(Box::new(units)), ..self }
    }

    /// The limit's name, as clients see it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the limit lets everything through: [`Shadow`](crate::Shadow).
    pub(super) fn is_shadow(&self) -> bool {
        self.limit.is_shadow()
    }

    /// Counts a request that the limit would have refused.
    pub(super) fn count_refusal(&self) {
        self.limit.count_refusal();
    }

    /// What a request asks of the limit, `None` where it is not limited; or why it is refused.
    pub(super) fn asked(
        &self,
        head: &Head<'_>,
    ) -> Result<Option<RequestAsk<'_>>, LimitRefusal<'_>> {
        let Some(key) = self.key(head)? else { return Ok(None) };
        let quota = match &self.quota {
            Some(quota) => quota(head).map_err(|error| {
                self.refusal(Reason::Quota(error), StatusCode::INTERNAL_SERVER_ERROR)
            })?,
            None => None,
        };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(head));
        let left = self.left.as_ref().map_or(0, |left| left(head));
        Ok(Some(RequestAsk { limit: self, key: self.limit.charged_key(key), quota, cost, left }))
    }

    fn refusal(&self, reason: Reason, status: StatusCode) -> LimitRefusal<'_> {
        LimitRefusal { name: &self.name, quoted: &self.field_name, reason, status }
    }

    fn key(&self, head: &Head<'_>) -> Result<Option<KeyHash>, LimitRefusal<'_>> {
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
        Err(self.refusal(Reason::Key(error), status))
    }
}

/// What a request asks of a limit.
pub(super) struct RequestAsk<'a> {
    limit: &'a RequestLimit,
    key: KeyHash,
    /// `None` for the limit's own.
    quota: Option<Quota>,
    cost: u64,
    left: u64,
}

impl<'a> RequestAsk<'a> {
    /// The same for a set of limits.
    pub(super) fn ask(&self) -> Ask<'_> {
        let subject = Subject { key: self.key, quota: self.quota.as_ref(), left: self.left };
        Ask::of(&*self.limit.limit, subject, self.cost)
    }

    /// Whether the response describes the limit: not a shadow.
    pub(super) fn is_described(&self) -> bool {
        !self.limit.is_shadow()
    }

    /// Adds a decision to the header fields.
    pub(super) fn describe(&self, fields: &mut Fields, decision: &Decision) {
        let window = match &self.quota {
            Some(quota) => quota.refill_time(),
            None => self.limit.limit.refill_time(),
        };
        fields.limit(&self.limit.field_name, window, decision);
    }

    /// What the limit says of the request that it denied.
    pub(super) fn denied(&self, decision: Decision) -> LimitRefusal<'a> {
        self.limit.refusal(Reason::Limit(decision), StatusCode::TOO_MANY_REQUESTS)
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
