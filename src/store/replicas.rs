//! `wait_replicas`: a grant counts once so many replicas have it.

use super::node::Node;
use crate::{
    error::{Error, Operation, Result},
    net::{Budget, topology::Replicas},
};
use redis::{Cmd, Value};
use std::time::Duration;

/// How long replicas are waited for before the server is asked whether it has them.
const FIRST_WAIT: Duration = Duration::from_millis(25);
/// What is left of a command's time for the answer to a WAIT in vain: an idle server ends it up to 100 ms late.
const LATE_WAIT: Duration = Duration::from_millis(130);

impl Node {
    /// Waits until so many replicas have all that was written on this link.
    pub fn await_replicas(&mut self, wanted: Replicas, budget: Budget) -> Result<()> {
        let wanted = u32::from(wanted);
        let generation = self.generation();
        // Enough, nearly always; where it is not, it leaves time to see why and to wait on.
        let mut confirmed = self.confirmations(wanted, FIRST_WAIT, generation, budget)?;
        if confirmed >= wanted {
            return Ok(());
        }
        let present = self.replicas(budget)?;
        if present >= wanted {
            let span = budget.command_by().remaining().saturating_sub(LATE_WAIT);
            confirmed = self.confirmations(wanted, span, generation, budget)?;
        }
        if confirmed >= wanted {
            return Ok(());
        }
        Err(Error::NotReplicated { node: self.name(), wanted, confirmed, present })
    }

    /// How many replicas have all that was written on the link of this generation, after `span` at the latest.
    fn confirmations(&mut self, wanted: u32, span: Duration, generation: u64, budget: Budget) -> Result<u32> {
        // Zero would wait for ever.
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
        let wait = |_, command: &mut Cmd| command.clone_from(redis::cmd("WAIT").arg(wanted).arg(millis));
        let answer = self.run(Operation::Replicate, &wait, budget)?;
        Ok(match answer.reply {
            // A new link has written nothing that could be waited for.
            Value::Int(count) if self.generation() == generation => u32::try_from(count).unwrap_or_default(),
            _ => 0,
        })
    }

    /// How many replicas the server has.
    fn replicas(&mut self, budget: Budget) -> Result<u32> {
        let role = |_, command: &mut Cmd| *command = redis::cmd("ROLE");
        let answer = self.run(Operation::Replicate, &role, budget)?;
        let Value::Array(items) = &answer.reply else { return Ok(0) };
        Ok(match items.as_slice() {
            [_, _, Value::Array(replicas)] => u32::try_from(replicas.len()).unwrap_or(u32::MAX),
            _ => 0,
        })
    }
}
