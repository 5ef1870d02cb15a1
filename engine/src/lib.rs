//! A rate limiter that decides in nanoseconds inside the process that asks.
