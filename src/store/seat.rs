//! How one node takes part in one round: from the look for a usable link to its ballot, as a state machine
//! that never waits.

use super::{
    member::{Ask, Member, NOBODY, PROBE},
    probe::Identity,
};
use crate::{
    clock::Moment,
    metrics::{self, Counter},
    net::{Link, Reason, Refusal, Reply},
};
use std::time::Duration;

/// A member's part in one round.
pub struct Seat {
    phase: Phase,
    /// An earlier sending of this round broke off unanswered.
    pub unanswered: Option<Reason>,
    /// The link at hand was made before this round, and may have been closed meanwhile.
    is_kept: bool,
}

enum Phase {
    Start,
    /// Before the next try.
    Pausing(Moment),
    Opening,
    /// What the server is must be known before its vote counts.
    Probing,
    Sent(Moment),
    Done(Ballot),
    /// It is done without, unless the others cannot decide.
    LeftOut(Ballot),
}

/// What came of a member's part.
#[derive(Debug)]
pub enum Ballot {
    /// Its answer, and when the question had been sent.
    Answered(Reply, Moment),
    /// It refused.
    Refused(Refusal),
    /// It was not asked, or not all of the question left.
    Unasked(Reason),
    /// It was asked, and has not answered.
    Unanswered(Reason),
}

/// Whether a server may take part, judged by what it said of itself.
pub type Admit<'a> = &'a dyn Fn(&Identity) -> Result<(), Refusal>;

/// Pause before a question is sent again whose first sending broke off.
const RESEND: Duration = Duration::from_millis(2);

impl Seat {
    /// A part that is still to begin.
    pub fn new() -> Self {
        Self { phase: Phase::Start, unanswered: None, is_kept: true }
    }

    /// The part of a member that is left out, for this reason.
    pub fn empty(reason: Reason) -> Self {
        Self { phase: Phase::LeftOut(Ballot::Unasked(reason)), unanswered: None, is_kept: true }
    }

    /// Lets a member that was left out take part after all. False: it was not left out.
    pub fn take_part(&mut self) -> bool {
        let was_left_out = matches!(self.phase, Phase::LeftOut(_));
        if was_left_out {
            self.phase = Phase::Start;
        }
        was_left_out
    }

    /// What came of it, once that is known; who is left out may still take part.
    pub fn ballot(&self) -> Option<&Ballot> {
        if let Phase::Done(ballot) = &self.phase { Some(ballot) } else { None }
    }

    /// Whether a question that had gone unanswered was answered when it was sent again.
    pub fn was_resent_to(&self) -> bool {
        self.unanswered.is_some() && matches!(self.phase, Phase::Done(Ballot::Answered(..)))
    }

    /// Whether the question has still to leave.
    pub fn is_unsent(&self, member: &Member) -> bool {
        match self.phase {
            Phase::Done(_) | Phase::LeftOut(_) => false,
            Phase::Sent(_) => !member.link.as_ref().is_none_or(Link::is_sent),
            _ => true,
        }
    }

    /// Whether its socket can tell something.
    pub fn listens(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Probing | Phase::Sent(_))
    }

    /// When to go on even if the socket tells nothing.
    pub fn wake_by(&self, member: &Member, ask: &Ask<'_>) -> Option<Moment> {
        match &self.phase {
            Phase::Done(_) | Phase::LeftOut(_) => None,
            Phase::Pausing(until) => Some(*until),
            Phase::Start => Some(Moment::now()),
            Phase::Opening => {
                let wake = member.link.as_ref().and_then(Link::wake_by);
                Some(wake.map_or(member.connect_by, |wake| wake.min(member.connect_by)).min(ask.budget.end))
            }
            Phase::Probing => Some(ask.budget.end.min(member.silent_since + ask.budget.command())),
            Phase::Sent(at) => Some(ask.budget.end.min(*at + ask.budget.command())),
        }
    }

    /// Ends the part of a member that is waited for no longer.
    pub fn close(&mut self) -> Ballot {
        let told = self.unanswered.take();
        match std::mem::replace(&mut self.phase, Phase::Start) {
            Phase::Done(ballot) | Phase::LeftOut(ballot) => ballot,
            Phase::Sent(_) => Ballot::Unanswered(told.unwrap_or(Reason::NotAwaited)),
            _ => told.map_or_else(|| Ballot::Unasked(Reason::NotAwaited), Ballot::Unanswered),
        }
    }

    /// Goes as far as possible without waiting. `is_ready`: the socket has something to tell.
    pub fn go_on(&mut self, member: &mut Member, ask: &Ask<'_>, mut is_ready: bool, admit: Admit<'_>) {
        loop {
            let step = match &self.phase {
                Phase::Done(_) | Phase::LeftOut(_) => return,
                Phase::Pausing(until) if !until.is_past() => return,
                Phase::Pausing(_) | Phase::Start => self.start(member, ask),
                Phase::Opening => self.open(member, ask),
                Phase::Probing => self.await_identity(member, ask, is_ready),
                Phase::Sent(at) => self.await_answer(member, ask, *at, is_ready),
            };
            is_ready = false;
            match step {
                Step::Stay => return,
                Step::To(phase) => self.phase = phase,
                // The vote of a server that may not take part does not count: it is not asked.
                Step::Admit => match member.identity.as_ref().map_or(Ok(()), admit) {
                    Err(refusal) => {
                        if refusal.code == "READONLY" {
                            // It may be the primary the next time: that is asked on a new link.
                            member.drop_link();
                        }
                        self.phase = Phase::Done(Ballot::Refused(refusal));
                    }
                    Ok(()) => match member.send(ask) {
                        Ok(at) => self.phase = Phase::Sent(at),
                        Err(reason) => self.broke(member, ask, reason),
                    },
                },
                Step::Broke(reason) => self.broke(member, ask, reason),
            }
        }
    }

    fn start(&mut self, member: &mut Member, ask: &Ask<'_>) -> Step {
        if member.link.as_ref().is_none_or(|link| !link.is_open() || !link.is_ours()) {
            member.refresh();
        }
        if member.link.is_none() {
            self.is_kept = false;
            member.connect_by = ask.budget.connect_by();
            member.silent_since = Moment::now();
            match Link::begin(&member.endpoint, member.connect_by) {
                Ok(link) => member.link = Some(link),
                Err(reason) => return Step::Broke(reason),
            }
        }
        Step::To(Phase::Opening)
    }

    fn open(&self, member: &mut Member, ask: &Ask<'_>) -> Step {
        let Some(link) = &mut member.link else { return Step::Broke(Reason::Closed) };
        if !link.is_open()
            && let Err(reason) = link.advance()
        {
            return Step::Broke(reason);
        }
        if !link.is_open() {
            let is_over = member.connect_by.is_past() || ask.budget.end.is_past();
            let reason = || Reason::ConnectTimedOut("the server did not answer");
            return if is_over { Step::Broke(reason()) } else { Step::Stay };
        }
        if member.identity.is_some() {
            return Step::Admit;
        }
        if member.owes(PROBE) {
            return Step::To(Phase::Probing);
        }
        match member.probe() {
            Ok(()) => Step::To(Phase::Probing),
            Err(reason) => Step::Broke(reason),
        }
    }

    fn await_identity(&self, member: &mut Member, ask: &Ask<'_>, is_ready: bool) -> Step {
        let Some(link) = &mut member.link else { return Step::Broke(Reason::Closed) };
        let read = if is_ready { link.advance() } else { Ok(()) };
        match read.and_then(|()| member.drain(NOBODY)) {
            Err(reason) => Step::Broke(reason),
            Ok(_) if member.identity.is_some() => Step::Admit,
            Ok(_) => self.stay_until(member, member.silent_since, ask),
        }
    }

    fn await_answer(&self, member: &mut Member, ask: &Ask<'_>, at: Moment, is_ready: bool) -> Step {
        let Some(link) = &mut member.link else { return Step::Broke(Reason::Closed) };
        let read = if is_ready { link.advance() } else { Ok(()) };
        match read.and_then(|()| member.drain(ask.ticket)) {
            Err(reason) => Step::Broke(reason),
            // The same link sends it again in full.
            Ok(Some((Err(refusal), _))) if refusal.code == "NOSCRIPT" => Step::Admit,
            Ok(Some((Err(refusal), _))) => {
                if refusal.code == "READONLY" {
                    // The primary may be another server now, behind the same name.
                    member.drop_link();
                }
                Step::To(Phase::Done(Ballot::Refused(refusal)))
            }
            Ok(Some((Ok(reply), sent_at))) => Step::To(Phase::Done(Ballot::Answered(reply, sent_at))),
            Ok(None) => self.stay_until(member, at, ask),
        }
    }

    /// A node that is silent keeps its link: its answers are drained when they come.
    fn stay_until(&self, member: &mut Member, since: Moment, ask: &Ask<'_>) -> Step {
        let is_over = (since + ask.budget.command()).is_past() || ask.budget.end.is_past();
        if !is_over {
            return Step::Stay;
        }
        member.outage.note(&Reason::TimedOut);
        Step::To(Phase::Done(match &self.phase {
            Phase::Sent(_) => Ballot::Unanswered(Reason::TimedOut),
            _ => Ballot::Unasked(Reason::TimedOut),
        }))
    }

    /// The link failed. What that means depends on what had been sent.
    fn broke(&mut self, member: &mut Member, ask: &Ask<'_>, reason: Reason) {
        let was_sent = member.owes(ask.ticket) && member.link.as_ref().is_none_or(Link::is_sent);
        let was_open = !matches!(self.phase, Phase::Start | Phase::Opening | Phase::Pausing(_));
        if was_open {
            member.drop_link()
        } else {
            member.failed(&reason)
        }
        let retry = |pause| Phase::Pausing(Moment::now() + pause);
        self.phase = if was_sent {
            let can_resend = ask.request.operation().is_repeatable() && self.unanswered.is_none();
            self.unanswered.get_or_insert(reason);
            if can_resend {
                metrics::count(Counter::RetryUnanswered);
            }
            match can_resend {
                true => retry(if self.is_kept { Duration::ZERO } else { RESEND }),
                false => Phase::Done(Ballot::Unanswered(self.unanswered.take().unwrap_or(Reason::Closed))),
            }
        } else if self.is_kept {
            // The server had closed it: that was no try.
            retry(Duration::ZERO)
        } else if let Some(first) = self.unanswered.take() {
            Phase::Done(Ballot::Unanswered(first))
        } else {
            Phase::Done(Ballot::Unasked(reason))
        };
        self.is_kept = false;
    }
}

enum Step {
    Stay,
    To(Phase),
    /// The node is there: ask it, if it may take part.
    Admit,
    Broke(Reason),
}
