//! The scripts, and how one is sent: by its digest, and in full when the server does not know it yet.

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
/// Gives the lock back.
pub static RELEASE: Script =
    Script::new(concat!(include_str!("scripts/free.lua"), include_str!("scripts/release.lua")));
/// Removes whoever's lock it is.
pub static FORCE_RELEASE: Script =
    Script::new(concat!(include_str!("scripts/free.lua"), include_str!("scripts/force_release.lua")));

impl Script {
    const fn new(source: &'static str) -> Self {
        Self { source, digest: OnceLock::new() }
    }

    /// The command that runs this script on `keys` with `arguments`.
    pub fn command(&self, form: Form, keys: &[&[u8]], arguments: &[&[u8]]) -> Vec<u8> {
        let size = keys.iter().chain(arguments).map(|bytes| bytes.len() + 16).sum::<usize>() + 128;
        let mut command = redis::Cmd::with_capacity(keys.len() + arguments.len() + 3, size);
        match form {
            Form::Digest => command.arg("EVALSHA").arg(self.digest()),
            Form::Source => command.arg("EVAL").arg(self.source),
        };
        command.arg(keys.len());
        for bytes in keys.iter().chain(arguments) {
            command.arg(*bytes);
        }
        command.get_packed_command()
    }

    fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.source).get_hash().to_owned())
    }
}
