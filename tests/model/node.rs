//! What a node does with a message: the scripts, with the resource's key and fence as one record.

use super::{
    bounds::Bounds,
    mutation::Mutation,
    world::{Answer, Kind, Message, Node},
};

impl Node {
    /// Handles a message whole: scripts are atomic.
    pub fn handle(&mut self, message: Message, bounds: &Bounds) -> Answer {
        match message.kind {
            Kind::Acquire | Kind::Refill => self.acquire(message, bounds),
            Kind::Raise => self.raise(message, bounds),
            Kind::Renew => self.renew(message, bounds),
            Kind::Release => self.release(message),
            Kind::ReleaseForGood => {
                self.bury(message.token);
                self.release(message)
            }
        }
    }

    /// The key of a lease lives at least as long as its validity, and then until somebody sees it gone.
    pub fn may_expire(&self) -> bool {
        self.lock != 0 && self.left == 0
    }

    pub fn expire(&mut self) {
        self.lock = 0;
        self.left = 0;
    }

    fn acquire(&mut self, message: Message, bounds: &Bounds) -> Answer {
        let is_refill = message.kind == Kind::Refill;
        let is_guarded = self.guard > 0 && !(is_refill && bounds.has(Mutation::RefillUnderGuard));
        let is_dead = self.is_dead(message.token) && !bounds.has(Mutation::NoDeadMarks);
        let is_taken = self.lock != 0 && self.lock != message.token;
        if is_guarded || is_dead || is_taken {
            return Answer::Refused;
        }
        if self.lock == 0 {
            self.left = 0;
            let minted = self.fence + u8::from(!(is_refill && bounds.has(Mutation::RefillMintsNothing)));
            self.lock = message.token;
            self.fence = minted.max(message.value);
        }
        self.live_on(message, bounds);
        Answer::Granted(self.fence)
    }

    fn raise(&mut self, message: Message, bounds: &Bounds) -> Answer {
        if self.lock != message.token && !bounds.mutation.is_some_and(Mutation::raises_for_others) {
            return Answer::Refused;
        }
        let may_lower = bounds.has(Mutation::RaiseBlindly) || bounds.has(Mutation::RaiseLowers);
        if self.fence < message.value || may_lower {
            self.fence = message.value;
        }
        Answer::Granted(self.fence)
    }

    fn renew(&mut self, message: Message, bounds: &Bounds) -> Answer {
        if self.lock != message.token {
            return Answer::Refused;
        }
        self.live_on(message, bounds);
        Answer::Granted(self.fence)
    }

    /// Nobody counts on the answer to a late message, so the key need not live on for it.
    fn live_on(&mut self, message: Message, bounds: &Bounds) {
        if message.is_awaited {
            self.left = bounds.validity;
        }
    }

    fn release(&mut self, message: Message) -> Answer {
        if self.lock == message.token {
            self.expire();
        }
        Answer::None
    }
}
