//! How long a grant may be relied on.

use crate::clock::Moment;
use std::time::Duration;

/// The shortest TTL, in seconds: below it the drift would leave nothing.
pub const SHORTEST_TTL: f64 = 0.01;
/// The longest TTL, in seconds: one year.
pub const LONGEST_TTL: f64 = 31_536_000.0;

/// The end of the validity of a grant whose command was sent at `sent_at`: the TTL from there on, less
/// what two clocks can drift apart in it, 1 % and 2 ms.
pub fn end(sent_at: Moment, ttl: Duration) -> Moment {
    sent_at + span(ttl)
}

/// How long a lease with this TTL is valid from the sending of its command on.
pub fn span(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_is_the_ttl_less_one_percent_and_two_milliseconds() {
        let sent_at = Moment::now();
        let left = |ttl| end(sent_at, Duration::from_millis(ttl)).since(sent_at);
        assert_eq!(left(10_000), Duration::from_millis(9_898));
        assert_eq!(left(10), Duration::from_micros(7_900));
        assert_eq!(left(1), Duration::ZERO);
    }
}
