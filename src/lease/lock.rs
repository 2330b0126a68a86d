//! One handle on one lock: decides what is asked of the store, and what each answer means.

use super::{
    registry,
    state::{Basis, Late, State},
    token::Token,
    validity,
};
use crate::{
    clock::Moment,
    error::{Error, Result},
    host::{self, Host, Interrupted},
    net::{Budget, Timeouts, poll},
    store::{Claim, Grant, Keys, Line, Outcome, Released, Renewed, Store, jittered},
};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// A handle on the lock on one resource.
pub struct Lock {
    store: Rc<dyn Store>,
    keys: Keys,
    ttl: Duration,
    timeouts: Timeouts,
    /// Never borrowed across a question to the store.
    state: RefCell<State>,
}

/// How a critical section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The lease covered it.
    Covered,
    /// The lease was over before it was.
    Lost,
}

/// What one attempt to take the lock came to.
enum Attempt {
    Held,
    /// Another owner has it, for so long at most if nobody renews.
    Contended(Option<Duration>),
}

/// Half of this to all of it: how long a waiter sleeps before it looks for itself.
const LONGEST_SLICE: Duration = Duration::from_secs(2);
/// How long after a lock's expiry it is worth looking: Redis rounds to milliseconds.
const AFTER_EXPIRY: Duration = Duration::from_millis(2);
/// Half of this to all of it: the pause of a waiter while Redis is away.
const AFTER_A_FAULT: Duration = Duration::from_millis(50);

impl Lock {
    /// A handle that holds nothing yet.
    pub fn new(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts) -> Rc<Self> {
        Rc::new(Self { store, keys, ttl, timeouts, state: RefCell::new(State::new(None)) })
    }

    /// A handle bound to a token that exists already; it does not hold until Redis has said so.
    pub fn restore(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts, token: Token) -> Rc<Self> {
        Rc::new(Self { store, keys, ttl, timeouts, state: RefCell::new(State::new(Some(token))) })
    }

    /// Takes the lock, or extends it if this handle holds it. False: contended until `wait` ended.
    /// After an error the lock is not held.
    pub fn acquire(self: &Rc<Self>, wait: Duration, host: &dyn Host) -> Result<bool> {
        let deadline = Moment::now() + wait;
        let mut line = None;
        let mut result = self.acquire_by(deadline, &mut line, host);
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
            let _ = self.release();
        }
        result
    }

    fn acquire_by(
        self: &Rc<Self>,
        deadline: Moment,
        line: &mut Option<Box<dyn Line>>,
        host: &dyn Host,
    ) -> Result<bool> {
        if self.state().is_release_owed {
            self.release()?;
        }
        let mut reservation = None;
        loop {
            let is_last = deadline.is_past();
            let attempt = self.attempt(!is_last, reservation.as_deref(), self.budget(deadline));
            let free_in = match attempt {
                Ok(Attempt::Held) => return Ok(true),
                Ok(Attempt::Contended(_)) if is_last => return Ok(false),
                Ok(Attempt::Contended(free_in)) => free_in,
                Err(error) if is_last || !error.is_passing() => {
                    self.give_back(reservation);
                    return Err(error);
                }
                Err(_) => {
                    let pause = Moment::now() + jittered(AFTER_A_FAULT);
                    if let Err(Interrupted) = poll::sleep_with_host(&[], pause.min(deadline), host) {
                        self.give_back(reservation);
                        return Err(Error::Interrupted);
                    }
                    continue;
                }
            };
            let until = self.try_again_by(free_in).min(deadline);
            let place = line.get_or_insert_with(|| self.store.line(&self.keys, self.timeouts, deadline));
            match place.wait(until, host) {
                Ok(handed) => reservation = handed,
                Err(Interrupted) => {
                    self.give_back(place.leave());
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
        let slice = jittered(LONGEST_SLICE);
        Moment::now() + free_in.map_or(slice, |free_in| slice.min(free_in + AFTER_EXPIRY))
    }

    fn give_back(&self, reservation: Option<Vec<u8>>) {
        if let Some(reservation) = reservation {
            // When this fails, its short TTL ends the reservation.
            let _ = self.store.give_back(&self.keys, &reservation, Budget::new(self.timeouts));
        }
    }

    fn attempt(self: &Rc<Self>, waits: bool, reservation: Option<&[u8]>, budget: Budget) -> Result<Attempt> {
        let basis = self.state().basis();
        let token = match basis {
            Basis::Same(token) => token,
            Basis::Fresh => Token::random()?,
            // If the key still holds the old token it is ours to extend; else this is a new attempt.
            Basis::Old if self.renew_within(self.ttl, budget)? => return Ok(Attempt::Held),
            Basis::Old => Token::random()?,
        };
        let claim = Claim { token: token.as_bytes(), ttl: self.ttl, waits, reservation };
        let claimed = self.store.acquire(&self.keys, &claim, budget).inspect_err(|error| {
            if error.is_unknown() {
                self.state().may_hold(token.clone());
                registry::add(self);
            }
        })?;
        if claimed.may_arrive_again {
            self.state().may_hold(token.clone());
            registry::add(self);
        }
        match claimed.outcome {
            Outcome::Held(grant) => self.granted(token, grant),
            Outcome::Contended(free_in) => {
                self.refused();
                Ok(Attempt::Contended(free_in))
            }
            Outcome::Dead => {
                self.refused();
                Ok(Attempt::Contended(Some(Duration::ZERO)))
            }
        }
    }

    fn granted(self: &Rc<Self>, token: Token, grant: Grant) -> Result<Attempt> {
        let valid_until = validity::end(grant.sent_at, self.ttl);
        self.state().hold(token, grant.fence, valid_until);
        registry::add(self);
        if valid_until.is_past() {
            self.release()?;
            return Err(Error::Late);
        }
        Ok(Attempt::Held)
    }

    /// The claim failed. If a copy of it may still arrive, its token is made useless first.
    fn refused(self: &Rc<Self>) {
        let may_arrive = self.state().late == Late::Ours;
        // When this fails the release stays owed, and the end of the request tries once more.
        if !may_arrive || self.release().is_err() {
            self.state().refused();
        }
        self.settle();
    }

    /// Extends the lease to at least `ttl` from now. False: lost. An error leaves what is known as it was.
    pub fn renew(self: &Rc<Self>, ttl: Option<Duration>) -> Result<bool> {
        self.renew_within(ttl.unwrap_or(self.ttl), Budget::new(self.timeouts))
    }

    fn renew_within(self: &Rc<Self>, ttl: Duration, budget: Budget) -> Result<bool> {
        let Some(token) = self.state().token_to_renew() else { return Ok(false) };
        match self.store.renew(&self.keys, token.as_bytes(), ttl, budget)? {
            Renewed::Held(grant) => {
                self.state().hold(token, grant.fence, validity::end(grant.sent_at, ttl));
                registry::add(self);
                Ok(true)
            }
            Renewed::Lost(_) => {
                self.state().lost();
                self.settle();
                Ok(false)
            }
        }
    }

    /// Gives the lock back. True: it was ours, and is free now. False: it was lost before.
    /// After an error it counts as not held, and a further release gives the final answer.
    pub fn release(self: &Rc<Self>) -> Result<bool> {
        self.release_within(Budget::new(self.timeouts))
    }

    fn release_within(self: &Rc<Self>, budget: Budget) -> Result<bool> {
        let Some((token, memory)) = self.state().begin_release(self.retries()) else { return Ok(false) };
        registry::add(self);
        let released = self.store.release(&self.keys, token.as_bytes(), memory, budget)?;
        self.state().end();
        self.settle();
        Ok(released == Released::Ours)
    }

    /// Ends a critical section: gives the lock back, and says whether the lease covered the section.
    pub fn conclude(self: &Rc<Self>) -> Ending {
        let (is_held, is_lost, is_over) = {
            let state = self.state();
            (state.is_held(), state.is_lost, state.token.is_none())
        };
        let is_covered = match is_over {
            true => !is_lost,
            // Unanswered: the validity covered the section, and the end of the request tries again.
            false => self.release().unwrap_or(true) && is_held,
        };
        if is_covered { Ending::Covered } else { Ending::Lost }
    }

    /// Hands the lease over: returns its token, and nothing here releases it any more.
    pub fn detach(self: &Rc<Self>) -> Option<Token> {
        let token = self.state().detach();
        self.settle();
        token
    }

    /// Gives back what is still owed, by `by` at the latest, and tells nobody: for the moments when
    /// nobody can be told.
    pub fn abandon(self: &Rc<Self>, by: Moment) {
        if self.state().owes() {
            let _ = self.release_within(Budget::until(self.timeouts, by));
        }
        // That was the last try: the destructors that follow a request's end must not begin again.
        self.state().end();
        self.settle();
    }

    /// When a release that begins now and tells nobody must be over.
    pub fn release_by(&self) -> Moment {
        Moment::now() + self.timeouts.command
    }

    /// The token of the present owner, whoever it is.
    pub fn owner(&self) -> Result<Option<Vec<u8>>> {
        self.store.owner(&self.keys, Budget::new(self.timeouts))
    }

    /// Removes the lock, whoever's it is. False: nobody had it.
    pub fn force_release(self: &Rc<Self>) -> Result<bool> {
        let is_removed = self.store.force_release(&self.keys, Budget::new(self.timeouts))?;
        // Whoever's it was: nobody holds it now, this handle neither.
        self.state().force_released();
        self.settle();
        Ok(is_removed)
    }

    /// Whether the lease may be relied on now; no question to Redis.
    pub fn is_held(&self) -> bool {
        self.state().is_held()
    }

    /// The validity left.
    pub fn remaining(&self) -> Duration {
        self.state().valid_until.map_or(Duration::ZERO, Moment::remaining)
    }

    /// The fence of this handle's latest lease.
    pub fn fence(&self) -> Option<u64> {
        self.state().fence
    }

    /// The token of this handle's lease, or of an attempt whose outcome is unknown.
    pub fn token(&self) -> Option<Token> {
        self.state().token.clone()
    }

    /// A call that ends with a time-out at `deadline` may take that long after it, and no longer.
    fn budget(&self, deadline: Moment) -> Budget {
        let end = Moment::now().max(deadline) + self.timeouts.connect + self.timeouts.command;
        Budget::until(self.timeouts, end)
    }

    /// How long one release may be asked for again: this call, and one more at the end of the request.
    fn retries(&self) -> Duration {
        (self.timeouts.connect + self.timeouts.command) * 2 + Duration::from_secs(1)
    }

    fn settle(self: &Rc<Self>) {
        if !self.state().owes() {
            registry::remove(self);
        }
    }

    /// The state, emptied first in a process that only inherited it.
    fn state(&self) -> std::cell::RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        state.adopt();
        state
    }
}
