//! What a server says of itself: whether two addresses lead to the same one, whether it follows another,
//! and since when it runs.

use crate::{
    clock::Moment,
    net::{Refusal, Reply},
};
use redis::{Cmd, Value};
use std::time::Duration;

/// What a server said of itself when it was connected to.
#[derive(Clone, Debug)]
pub struct Identity {
    /// New with each start of a server.
    pub run_id: Option<String>,
    /// Whether it follows another server.
    pub is_replica: bool,
    /// When it started, at the latest; None if it does not tell.
    pub started: Option<Age>,
    /// Why it does not tell.
    pub silence: Option<String>,
}

/// How long a server had been running at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    at: Moment,
    age: Duration,
}

impl Age {
    /// How long it has been running by now.
    pub fn now(self) -> Duration {
        self.age + Moment::now().since(self.at)
    }
}

/// Asks for it.
pub fn command() -> Cmd {
    redis::cmd("INFO")
}

impl Identity {
    /// Whether it is known to have been running for so long.
    pub fn has_run_for(&self, span: Duration) -> bool {
        span.is_zero() || self.started.is_some_and(|age| age.now() >= span)
    }

    /// Reads the answer, which came `at` this moment.
    pub fn read(reply: &Result<Reply, Refusal>, at: Moment) -> Self {
        let text = match reply {
            Ok(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Ok(Value::VerbatimString { text, .. }) => text.clone(),
            Ok(_) => String::new(),
            Err(refusal) => {
                return Self { run_id: None, is_replica: false, started: None, silence: Some(refusal.to_string()) };
            }
        };
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        // Redis counts whole seconds on a clock of whole seconds.
        let age = value("uptime_in_seconds").and_then(|text| text.trim().parse::<u64>().ok());
        let age = age.map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
        Self {
            run_id: value("run_id").map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()),
            is_replica: value("role").is_some_and(|role| role.trim() == "slave"),
            started: age.map(|age| Age { at, age }),
            silence: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_info_tells_and_rounds_the_age_down() {
        let text = b"# Server\r\nredis_version:7.0.15\r\nrun_id:00ff\r\nuptime_in_seconds:61\r\nrole:master\r\n";
        let told = Identity::read(&Ok(Value::BulkString(text.to_vec())), Moment::now());
        assert_eq!((told.run_id.as_deref(), told.is_replica), (Some("00ff"), false));
        let replica = Identity::read(&Ok(Value::BulkString(b"role:slave\r\n".to_vec())), Moment::now());
        assert!(replica.is_replica);
        assert!(told.started.is_some_and(|age| age.now().as_secs() == 60));
        let refusal = Refusal { code: "NOPERM".into(), message: "NOPERM no".into() };
        let untold = Identity::read(&Err(refusal), Moment::now());
        assert!(untold.run_id.is_none() && untold.started.is_none() && untold.silence.is_some());
    }
}
