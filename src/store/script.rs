//! The scripts, and how one is sent: by its digest, and in full when the server does not know it yet.

use redis::Cmd;
use std::sync::OnceLock;

/// A Lua script; `src/store/scripts/` says what each takes and returns.
pub struct Script {
    source: &'static str,
    digest: OnceLock<String>,
}

/// How a script is named in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// EVALSHA: right when the server has seen the script.
    Digest,
    /// EVAL: always right; the server keeps the script.
    Source,
}

/// Takes the lock.
pub static ACQUIRE: Script = Script::new(include_str!("scripts/acquire.lua"));
/// Extends the lock.
pub static RENEW: Script = Script::new(include_str!("scripts/renew.lua"));
/// Raises the lock's fence.
pub static RAISE: Script = Script::new(include_str!("scripts/raise.lua"));
/// Gives the lock back.
pub static RELEASE: Script =
    Script::new(concat!(include_str!("scripts/free.lua"), include_str!("scripts/release.lua")));
/// Removes whoever's lock it is.
pub static FORCE_RELEASE: Script =
    Script::new(concat!(include_str!("scripts/free.lua"), include_str!("scripts/force_release.lua")));
/// Passes a reservation on.
pub static GIVE_BACK: Script =
    Script::new(concat!(include_str!("scripts/free.lua"), include_str!("scripts/give_back.lua")));

impl Script {
    const fn new(source: &'static str) -> Self {
        Self { source, digest: OnceLock::new() }
    }

    /// Makes `command` the one that runs this script on `keys`; the arguments follow.
    pub fn call<'a>(&self, command: &'a mut Cmd, form: Form, keys: &[&[u8]]) -> &'a mut Cmd {
        command.clear();
        match form {
            Form::Digest => command.arg("EVALSHA").arg(self.digest()),
            Form::Source => command.arg("EVAL").arg(self.source),
        };
        command.arg(keys.len());
        for key in keys {
            command.arg(*key);
        }
        command
    }

    /// The script's name on the server, computed at the first call.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.source).get_hash().to_owned())
    }
}
