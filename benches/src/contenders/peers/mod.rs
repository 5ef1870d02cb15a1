//! Limiters other than governor's keyed one, each called as documented, with its default clock
//! unless its name says otherwise.

mod bare;
mod gcra;
mod governors;
mod permits;
mod pingora;
mod quota;
mod single;
mod throttlecrab;
mod windows;
mod words;

pub use self::bare::Bare;
pub use self::governors::{GovernorDirect, GovernorPresized, GovernorU64, GovernorUpkeep};
pub use self::permits::TokioSemaphore;
pub use self::pingora::PingoraLimits;
pub use self::quota::Quota;
pub use self::single::{LeakyBucket, LeakyBucketQueue, Ratelimit};
pub use self::throttlecrab::Throttlecrab;
pub use self::windows::{RateGuard, ThrottleNetLog, VolgaFixedWindow, VolgaSlidingWindow};
pub use self::words::{PapayaU64, SccU64};
