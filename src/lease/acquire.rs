//! Taking a lock: one attempt, and what comes between attempts when somebody else has it.

use super::{
    Lock,
    lock::Confirmation,
    registry,
    state::{Basis, Late, Origin},
    token::Token,
    watch::Watch,
};
use crate::{
    clock::Moment,
    error::{Error, Result},
    host::{self, Host, Interrupted},
    metrics::{self, Counter},
    net::{Budget, poll},
    store::{Claim, Grant, Line, Outcome, jittered},
};
use std::{rc::Rc, time::Duration};

/// What came of asking for the lock.
#[derive(Clone, Copy)]
pub enum Taken {
    /// A new lease.
    New,
    /// The one that this handle had.
    Extended,
    /// Nothing: another owner had it.
    No,
}

/// What one attempt to take the lock came to.
pub enum Attempt {
    Held {
        /// Whether the lease is a new one.
        is_new: bool,
    },
    /// Another owner has it, for so long at most if nobody renews.
    Contended(Option<Duration>),
    /// Nobody has it: several tried at once.
    Split,
}

/// Half of this to all of it: how long a waiter sleeps before it looks for itself.
const LONGEST_SLICE: Duration = Duration::from_secs(2);
/// The same where another server may take over, which wakes nobody.
const LONGEST_SLICE_MOVING: Duration = Duration::from_millis(600);
/// How long after a lock's expiry it is worth looking: Redis rounds to milliseconds.
const AFTER_EXPIRY: Duration = Duration::from_millis(2);
/// Half of this to all of it: the pause after the first attempt that others' attempts cost the majority, and
/// the longest; each is twice as long as the one before.
const AFTER_A_SPLIT: Duration = Duration::from_millis(4);
const LONGEST_AFTER_A_SPLIT: Duration = Duration::from_millis(64);
/// Half of this to all of it: the pause of a waiter while Redis is away.
const AFTER_A_FAULT: Duration = Duration::from_millis(50);

impl Lock {
    /// Takes the lock, or extends it if this handle holds it. False: contended until `wait` ended.
    /// After an error the lock is not held.
    pub fn acquire(self: &Rc<Self>, wait: Duration, host: &dyn Host) -> Result<bool> {
        let deadline = Moment::now() + wait;
        let mut watch = Watch::new(self.prefix, !wait.is_zero());
        let mut line = None;
        // A call that ends with a time-out at the deadline may take that long after it, and no longer.
        let budget = Budget::until(self.timeouts, deadline + self.timeouts.connect + self.timeouts.command);
        let mut result = match self.is_abort_due() && host::attend(host).is_err() {
            true => Err(Error::Interrupted),
            false => self.acquire_by(deadline, budget, &mut line, &mut watch, host),
        };
        drop(line);
        // What the host wants is served before the caller learns how it ended, and may end it otherwise.
        if host::attend(host).is_err() {
            result = Err(Error::Interrupted);
        }
        if result.is_err() && self.state().give_up() {
            registry::add(self);
        }
        if matches!(result, Err(Error::Interrupted)) {
            // Nobody can be told when this fails; then the end of the request tries again.
            let _ = self.release_within(budget.one().hurried());
        }
        watch.end(&result);
        result.inspect_err(|error| self.reported(error)).map(|taken| !matches!(taken, Taken::No))
    }

    fn acquire_by(
        self: &Rc<Self>,
        deadline: Moment,
        budget: Budget,
        line: &mut Option<Box<dyn Line>>,
        watch: &mut Watch,
        host: &dyn Host,
    ) -> Result<Taken> {
        self.prepare()?;
        let mut reservation = None;
        let mut after_a_split = AFTER_A_SPLIT;
        loop {
            let is_last = deadline.is_past();
            let attempt = self.attempt(!is_last, reservation.as_deref(), budget.one());
            watch.saw(&attempt);
            let free_in = match attempt {
                Ok(Attempt::Held { is_new }) => return Ok(if is_new { Taken::New } else { Taken::Extended }),
                Ok(_) if deadline.is_past() => return Ok(Taken::No),
                Ok(Attempt::Contended(free_in)) => free_in,
                Ok(Attempt::Split) => {
                    metrics::count(Counter::RetrySplit);
                    let pause = jittered(after_a_split);
                    after_a_split = (after_a_split * 2).min(LONGEST_AFTER_A_SPLIT);
                    Some(pause)
                }
                Err(error) if deadline.is_past() || !error.is_passing() => {
                    self.give_back(reservation, budget);
                    return Err(error);
                }
                Err(_) => {
                    metrics::count(Counter::RetryOutage);
                    let pause = Moment::now() + jittered(AFTER_A_FAULT);
                    if let Err(Interrupted) = poll::sleep_with_host(&[], pause.min(deadline), host) {
                        self.give_back(reservation, budget);
                        return Err(Error::Interrupted);
                    }
                    continue;
                }
            };
            let until = self.try_again_by(free_in).min(deadline);
            let place = line.get_or_insert_with(|| self.store.line(&self.keys, self.timeouts, deadline));
            match place.wait(until, host) {
                Ok(handed) => {
                    watch.woke(handed.is_some(), until);
                    reservation = handed;
                }
                Err(Interrupted) => {
                    self.give_back(place.leave(), budget);
                    return Err(Error::Interrupted);
                }
            }
            if deadline.is_past() && reservation.is_none() {
                reservation = place.leave();
            }
        }
    }

    /// When to try again if no release wakes us: when the lock expires, and every so often in case a
    /// wake-up was lost with the one it was meant for.
    fn try_again_by(&self, free_in: Option<Duration>) -> Moment {
        let slice = jittered(if self.store.can_move() { LONGEST_SLICE_MOVING } else { LONGEST_SLICE });
        Moment::now() + free_in.map_or(slice, |free_in| slice.min(free_in + AFTER_EXPIRY))
    }

    fn give_back(&self, reservation: Option<Vec<u8>>, budget: Budget) {
        if let Some(reservation) = reservation {
            // When this fails, its short TTL ends the reservation.
            let _ = self.store.give_back(&self.keys, &reservation, budget.one());
        }
    }

    fn attempt(self: &Rc<Self>, waits: bool, reservation: Option<&[u8]>, budget: Budget) -> Result<Attempt> {
        if self.state().is_release_owed {
            self.release_within(budget)?;
        }
        let basis = self.state().basis();
        let token = match basis {
            Basis::Same(token) => token,
            Basis::Fresh => Token::random()?,
            // If the key still holds the old token it is ours to extend; else this is a new attempt.
            Basis::Old if self.renew_within(self.ttl, budget)? => return Ok(Attempt::Held { is_new: false }),
            Basis::Old => Token::random()?,
        };
        let claim = Claim { token: token.as_bytes(), ttl: self.ttl, waits, reservation };
        let claimed = self.store.acquire(&self.keys, &claim, budget).inspect_err(|error| {
            if error.may_arrive_again() {
                self.state().may_hold(token.clone());
                registry::add(self);
            }
            if error.was_given_back() {
                self.state().given_back(&token);
            }
        })?;
        if claimed.may_arrive_again {
            self.state().may_hold(token.clone());
            registry::add(self);
        }
        match claimed.outcome {
            Outcome::Held(grant) => self.granted(token, grant, budget),
            Outcome::Contended(free_in) => {
                self.refused(budget);
                Ok(Attempt::Contended(free_in))
            }
            Outcome::Split => {
                self.refused(budget);
                Ok(Attempt::Split)
            }
            Outcome::Dead => {
                self.refused(budget);
                Ok(Attempt::Contended(Some(Duration::ZERO)))
            }
        }
    }

    fn granted(self: &Rc<Self>, token: Token, grant: Grant, budget: Budget) -> Result<Attempt> {
        let Confirmation { valid_until, is_new } = self.confirmed(token, grant, self.ttl, Origin::Claim)?;
        if valid_until.is_past() {
            self.release_within(budget)?;
            return Err(Error::Late);
        }
        Ok(Attempt::Held { is_new })
    }

    /// The claim failed. If a copy of it may still arrive, its token is made useless first.
    fn refused(self: &Rc<Self>, budget: Budget) {
        let may_arrive = self.state().late == Late::Ours;
        // When this fails the release stays owed, and the end of the request tries once more.
        if !may_arrive || self.release_within(budget).is_err() {
            self.state().refused();
        }
    }
}
