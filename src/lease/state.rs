//! What a handle knows of its lease, and how each event changes it. No questions are asked here.

use super::token::Token;
use crate::{
    clock::Moment,
    loss::Loss,
    metrics::{self, Counter, Histogram, PerPrefix, Prefix},
    process,
    renewal::Renewal,
    store::{Grant, Memory, Released, Standing},
    validity,
};
use std::time::Duration;

/// What a handle knows.
pub struct State {
    /// The process the rest belongs to: in a forked child none of it holds.
    pid: u32,
    /// The token of the lease, or of an attempt that may have taken the lock.
    pub token: Option<Token>,
    /// Ends the validity of the lease; None when none was granted.
    pub valid_until: Option<Moment>,
    /// The fence of the latest lease.
    pub fence: Option<u64>,
    /// Whether a command that takes the lock with this token may still be under way.
    pub late: Late,
    /// The lock counts as not held, and is still to be given back.
    pub is_release_owed: bool,
    /// The lease ended without our doing.
    pub is_lost: bool,
    /// How, where it is known.
    loss: Option<Loss>,
    /// When the command that brought the lease had been sent.
    pub granted_at: Option<Moment>,
    /// Renews the lease, while it is held.
    pub renewal: Option<Renewal>,
    /// How long the lease was valid when it was last confirmed.
    span: Duration,
    /// The loss of the lease is counted.
    is_loss_counted: bool,
    /// The caller was told that the outcome is unknown.
    pub is_told_unknown: bool,
    /// What the resource is counted under.
    prefix: Prefix,
}

/// Whether a command that takes the lock may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// All were answered.
    None,
    /// One of ours went unanswered.
    Ours,
    /// The token is from elsewhere, and nobody here knows.
    Elsewhere,
}

/// What a confirmed lease was confirmed by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A claim, which may have begun a new lease.
    Claim,
    /// A renewal of the one at hand.
    Renewal,
}

/// With which token an attempt begins.
pub enum Basis {
    /// The lease is valid, or the outcome of the last attempt is unknown: the same attempt again.
    Same(Token),
    /// The token may still own the lock, but its validity is over or was never known.
    Old,
    /// None: a new token for a new attempt.
    Fresh,
}

/// A lock that had longer to live is remembered for less, so that no mark stays for hours.
const LONGEST_LOCK_LIFE: Duration = Duration::from_secs(60);

impl State {
    /// Bound to `token`, if there is one already, of a resource that is counted under this prefix.
    pub fn new(token: Option<Token>, prefix: Prefix) -> Self {
        Self {
            pid: process::id(),
            late: if token.is_some() { Late::Elsewhere } else { Late::None },
            token,
            valid_until: None,
            fence: None,
            is_release_owed: false,
            is_lost: false,
            loss: None,
            granted_at: None,
            renewal: None,
            span: Duration::ZERO,
            is_loss_counted: false,
            is_told_unknown: false,
            prefix,
        }
    }

    /// In a forked child: forgets what only the parent holds.
    pub fn adopt(&mut self) {
        if self.pid != process::id() {
            *self = Self::new(None, self.prefix);
        }
    }

    /// Takes over what the automatic renewal has found out.
    pub fn follow(&mut self) {
        let Some(news) = self.renewal.as_ref().and_then(Renewal::news) else { return };
        if self.valid_until.is_some() {
            self.valid_until = Some(news.valid_until);
            self.fence = Some(news.fence);
        }
        self.is_loss_counted |= news.is_counted;
        match news.loss {
            Some(loss @ (Loss::Deleted | Loss::Taken)) => {
                // Kept for what its owner's program is still to be told.
                let renewal = self.renewal.take();
                self.lost(Some(loss));
                self.renewal = renewal;
            }
            loss => self.note(loss),
        }
    }

    /// The first cause counts. That it expired is none where more is known.
    fn note(&mut self, loss: Option<Loss>) {
        if matches!(self.loss, None | Some(Loss::Expired)) {
            self.loss = loss.or(self.loss);
        }
    }

    /// Counts the loss of the lease, if nobody has. The renewal counts those that it finds.
    fn count_loss(&mut self) {
        if !std::mem::replace(&mut self.is_loss_counted, true) {
            Loss::count(self.loss, self.prefix);
        }
    }

    /// A lease whose validity is over has expired, whatever becomes of its key.
    fn notice_expiry(&mut self) {
        if self.valid_until.is_some_and(Moment::is_past) {
            self.note(Some(Loss::Expired));
            self.count_loss();
        }
    }

    /// Whether the lease may be relied on now.
    pub fn is_held(&self) -> bool {
        self.valid_until.is_some_and(|end| !end.is_past())
    }

    /// The validity left.
    pub fn remaining(&self) -> Duration {
        self.valid_until.map_or(Duration::ZERO, Moment::remaining)
    }

    /// Whether the lock may be ours in Redis by our own doing.
    pub fn owes(&self) -> bool {
        self.token.is_some() && (self.valid_until.is_some() || self.late == Late::Ours || self.is_release_owed)
    }

    /// With which token an attempt begins.
    pub fn basis(&self) -> Basis {
        match &self.token {
            Some(token) if self.is_held() || (self.late == Late::Ours && self.valid_until.is_none()) => {
                Basis::Same(token.clone())
            }
            Some(_) => Basis::Old,
            None => Basis::Fresh,
        }
    }

    /// What a renewal knows of the lease.
    pub fn standing(&self) -> Standing {
        match (self.fence, self.valid_until) {
            (Some(fence), Some(until)) if !until.is_past() => Standing::Valid { fence, until },
            (_, Some(_)) => Standing::Over,
            (_, None) => Standing::Untold,
        }
    }

    /// The token to renew with; None when there is nothing to renew, or it is to be given back.
    pub fn token_to_renew(&self) -> Option<Token> {
        if self.is_release_owed { None } else { self.token.clone() }
    }

    /// How the lease was lost; None when it was not, or nobody knows.
    pub fn loss(&self) -> Option<Loss> {
        let is_over = self.valid_until.is_some_and(Moment::is_past);
        self.loss.or(is_over.then_some(Loss::Expired))
    }

    /// Redis confirmed the lease. A shorter TTL than before cuts nothing off: Redis never shortens one. True when
    /// it is the one that was known before.
    pub fn hold(&mut self, token: Token, grant: Grant, ttl: Duration, origin: Origin) -> bool {
        let valid_until = validity::end(grant.sent_at, ttl);
        let is_same = self.fence == Some(grant.fence) && self.token.as_ref() == Some(&token);
        if origin == Origin::Claim && !is_same && self.not_held().is_some() {
            // What this handle held had gone, and was granted anew.
            self.note(Some(Loss::Deleted));
            self.count_loss();
        }
        self.notice_expiry();
        let earlier = self.valid_until.filter(|_| is_same);
        self.valid_until = Some(earlier.map_or(valid_until, |earlier| earlier.max(valid_until)));
        if self.token.as_ref() != Some(&token) {
            self.late = Late::None;
        }
        self.token = Some(token);
        self.fence = Some(grant.fence);
        self.span = validity::span(ttl);
        self.is_loss_counted &= earlier.is_some();
        if std::mem::take(&mut self.is_told_unknown) {
            metrics::count(Counter::UnknownResent);
        }
        self.is_release_owed = false;
        self.is_lost = false;
        self.loss = None;
        earlier.is_some()
    }

    /// A claim with `token` went unanswered.
    pub fn may_hold(&mut self, token: Token) {
        if self.token.as_ref() != Some(&token) {
            self.not_held();
        }
        self.token = Some(token);
        self.late = Late::Ours;
    }

    /// The lock is another's: what this handle held is gone.
    pub fn refused(&mut self) {
        if self.not_held().is_some() {
            self.is_lost = true;
            self.note(Some(Loss::Taken));
            self.count_loss();
        }
        if self.late == Late::None {
            self.token = None;
        }
    }

    /// A renewal found that the token owns nothing. Kept only if a late command could still take the lock.
    pub fn lost(&mut self, loss: Option<Loss>) {
        let was_held = self.not_held().is_some();
        self.is_lost = true;
        self.note(loss);
        if was_held {
            self.count_loss();
        }
        if self.late == Late::None {
            self.token = None;
        }
    }

    /// The lock was removed, whoever held it.
    pub fn force_released(&mut self) {
        if self.valid_until.is_some() {
            // By its owner.
            self.is_loss_counted = true;
            self.observe_hold(self.remaining());
            self.lost(Some(Loss::Deleted));
        }
    }

    /// A claim with `token` failed, and what it had got was given back: the same token must not claim again,
    /// or a release that comes late would take the new grant away.
    pub fn given_back(&mut self, token: &Token) {
        if self.token.as_ref() == Some(token) {
            self.not_held();
            self.is_release_owed = true;
        }
    }

    /// From here on nothing is held, and nothing renewed: the end of the validity until then.
    fn not_held(&mut self) -> Option<Moment> {
        self.is_loss_counted |= self.renewal.take().is_some_and(Renewal::end);
        self.notice_expiry();
        self.valid_until.take()
    }

    /// An acquire ended with an error: whatever was held counts as not held. True when it is to be given back.
    pub fn give_up(&mut self) -> bool {
        if self.not_held().is_some() {
            self.is_release_owed = true;
        }
        self.owes()
    }

    /// The token to release with, and how long the release must be remembered if it may be asked for
    /// again for `retries`. From here on the lock counts as not held, whatever comes of the release.
    pub fn begin_release(&mut self, retries: Duration) -> Option<(Token, Memory)> {
        let Some(token) = self.token.clone() else {
            // Its owner sees from the answer that it was lost, and need not be told otherwise.
            self.renewal = None;
            self.end_lost();
            return None;
        };
        let left = self.remaining();
        let valid_until = self.not_held();
        if valid_until.is_some() || self.is_lost {
            self.observe_hold(left);
        }
        self.is_release_owed = true;
        let memory = match left {
            _ if self.late != Late::None => Memory::ForGood,
            left if left >= retries && left <= LONGEST_LOCK_LIFE => Memory::LockLife,
            _ => Memory::For(retries),
        };
        Some((token, memory))
    }

    /// The work under the lease has ended, with this validity left. False: there was none, or that was seen before.
    fn observe_hold(&mut self, left: Duration) -> bool {
        let Some(granted_at) = self.granted_at.take() else { return false };
        let held = Moment::now().since(granted_at);
        metrics::observe(Histogram::Hold, held);
        metrics::observe_share(Histogram::ValidityLeft, left, self.span);
        self.prefix.spend(PerPrefix::Hold, held);
        true
    }

    /// The owner lets go of what was found lost before, and nothing is asked.
    pub fn end_lost(&mut self) {
        if self.is_lost && self.observe_hold(Duration::ZERO) {
            metrics::count(Counter::ReleaseLost);
        }
    }

    /// The release of a lease that had been valid until then was answered.
    pub fn released(&mut self, released: Released, valid_until: Option<Moment>) {
        if self.is_told_unknown {
            metrics::count(Counter::UnknownReleased);
        }
        let (before, is_counted) = (self.loss, self.is_loss_counted);
        self.end();
        // What was told of it stays told, even if its key was still there.
        self.loss = before;
        if let Released::Lost(found) = released {
            self.note(Loss::found(found, valid_until));
        }
        // What was never held here is not lost here.
        self.is_loss_counted = is_counted || valid_until.is_none();
        if released != Released::Ours {
            self.count_loss();
        }
    }

    /// Nothing is held or owed.
    pub fn end(&mut self) {
        self.not_held();
        let fence = self.fence;
        *self = Self { fence, ..Self::new(None, self.prefix) };
    }

    /// Lets the lease go without releasing it.
    pub fn detach(&mut self) -> Option<Token> {
        let token = self.token.take();
        self.end();
        token
    }
}
