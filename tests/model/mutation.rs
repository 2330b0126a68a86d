//! Wrong protocols, each one step away from the right one.

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The highest fence is reported, but not written back to a majority.
    NoWriteBack,
    /// A node raises its fence, and confirms, for a token that does not own its key.
    RaiseWithoutOwning,
    /// A node sets its fence to what is written back, whoever owns its key, and also if that is lower.
    RaiseBlindly,
    /// The owner's write-back sets the fence also if that is lower.
    RaiseLowers,
    /// A majority of the nodes that answered counts as a majority.
    MajorityOfTheAnswering,
    /// The validity is counted from the first of several attempts.
    ValidityFromTheFirstAttempt,
    /// The validity is counted from the sending of the write-back.
    ValidityFromTheWriteBack,
    /// The validity is judged when the question is sent, not after the last answer that counts.
    JudgedAtSending,
    /// A node that lost its copy is refilled, and counted, before a majority has confirmed the renewal.
    RefillUnconfirmed,
    /// A refill leaves the node's fence as it is, if that is higher, and does not mint one.
    RefillMintsNothing,
    /// A node under its restart guard lets itself be refilled.
    RefillUnderGuard,
    /// A release after a failed attempt leaves no mark.
    NoDeadMarks,
    /// A renewal reports the known fence also if the lease was over when the answers came.
    FenceKeptAfterTheEnd,
    /// A renewal reports the known fence if the lease was valid when the question was sent.
    FenceJudgedAtSending,
    /// An attempt after a failed one uses its token again.
    TokenUsedAgain,
    /// A lease that was over and is extended takes no floor of its own.
    NoFloorAtRenewal,
    /// A late grant raises the fence, but the validity is not judged again.
    LateGrantUnjudged,
}

/// All of them.
pub const ALL: [Mutation; 17] = [
    Mutation::NoWriteBack,
    Mutation::RaiseWithoutOwning,
    Mutation::RaiseBlindly,
    Mutation::RaiseLowers,
    Mutation::MajorityOfTheAnswering,
    Mutation::ValidityFromTheFirstAttempt,
    Mutation::ValidityFromTheWriteBack,
    Mutation::JudgedAtSending,
    Mutation::RefillUnconfirmed,
    Mutation::RefillMintsNothing,
    Mutation::RefillUnderGuard,
    Mutation::NoDeadMarks,
    Mutation::FenceKeptAfterTheEnd,
    Mutation::FenceJudgedAtSending,
    Mutation::TokenUsedAgain,
    Mutation::NoFloorAtRenewal,
    Mutation::LateGrantUnjudged,
];

impl Mutation {
    /// Whether a write-back does something on a node where its token owns nothing.
    pub fn raises_for_others(self) -> bool {
        matches!(self, Self::RaiseWithoutOwning | Self::RaiseBlindly)
    }

    /// Whether a token may take a lock that was released for good.
    pub fn revives_tokens(self) -> bool {
        matches!(self, Self::TokenUsedAgain | Self::NoDeadMarks)
    }
}
