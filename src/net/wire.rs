//! A connected socket, plain or under TLS: moves bytes as far as they go without waiting.

use super::{dsn::TlsFiles, fault::Reason, poll::Interest, tls};
use rustls::ClientConnection;
use socket2::Socket;
use std::{
    io::{self, Read, Write},
    mem::MaybeUninit,
    net::Shutdown,
    os::fd::AsRawFd,
};

/// A connected socket.
pub struct Wire {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

/// How much is read at once: more than any reply of ours.
const CHUNK: usize = 1024;

impl Wire {
    /// A wire without TLS.
    pub fn plain(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    /// A wire under TLS, whose handshake is still to come.
    pub fn secured(socket: Socket, files: &TlsFiles, host: &str) -> Result<Self, Reason> {
        Ok(Self { socket, tls: Some(Box::new(tls::connection(files, host)?)) })
    }

    /// Whether the handshake is still under way; goes on with it as far as it can.
    pub fn is_handshaking(&mut self) -> Result<bool, Reason> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        let mut socket = NoSignal(&self.socket);
        while tls.is_handshaking() {
            match tls.complete_io(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(tls::reason(error)),
            }
        }
        Ok(false)
    }

    /// Hands over what it takes of `outbox`. Bytes that it took but that are still here keep
    /// [`is_flushed`](Self::is_flushed) false.
    pub fn send(&mut self, outbox: &mut Vec<u8>) -> Result<(), Reason> {
        if let Some(tls) = &mut self.tls {
            let taken = tls.writer().write(outbox).map_err(Reason::Io)?;
            outbox.drain(..taken);
            while tls.wants_write() {
                match tls.write_tls(&mut NoSignal(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(Reason::Io(error)),
                }
            }
            return Ok(());
        }
        while !outbox.is_empty() {
            match NoSignal(&self.socket).write(outbox) {
                Ok(written) => drop(outbox.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Reason::Io(error)),
            }
        }
        Ok(())
    }

    /// Whether the kernel has every byte it was handed.
    pub fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Takes a piece of what has arrived into `inbox`: one look, so that no flood outlasts a deadline.
    pub fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<(), Reason> {
        let Some(tls) = &mut self.tls else { return receive_plain(&self.socket, inbox) };
        match tls.read_tls(&mut NoSignal(&self.socket)) {
            Ok(0) => return Err(Reason::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(Reason::Io(error)),
        }
        let state = tls.process_new_packets().map_err(|error| tls::reason(io::Error::other(error)))?;
        let waiting = u64::try_from(state.plaintext_bytes_to_read()).unwrap_or_default();
        tls.reader().take(waiting).read_to_end(inbox).map_err(Reason::Io)?;
        if state.peer_has_closed() && waiting == 0 { Err(Reason::Closed) } else { Ok(()) }
    }

    /// Whether the peer is there and has said nothing, as far as can be told without a round trip.
    pub fn is_quiet(&mut self) -> bool {
        if self.tls.is_some() {
            // A server may send session tickets at any time: they are no data.
            let mut inbox = Vec::new();
            if self.receive(&mut inbox).is_err() || !inbox.is_empty() {
                return false;
            }
        }
        let mut byte = [MaybeUninit::uninit()];
        matches!(self.socket.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Tells the peer that nothing more comes; what it has still to say can be read.
    pub fn end_sending(&self) -> Result<(), Reason> {
        self.socket.shutdown(Shutdown::Write).map_err(Reason::Io)
    }

    /// What to poll for, with or without bytes of ours still to be sent.
    pub fn interest(&self, has_more: bool) -> Interest {
        Interest { fd: self.socket.as_raw_fd(), read: true, write: has_more || !self.is_flushed() }
    }
}

fn receive_plain(socket: &Socket, inbox: &mut Vec<u8>) -> Result<(), Reason> {
    inbox.reserve(CHUNK);
    loop {
        match socket.recv(inbox.spare_capacity_mut()) {
            Ok(0) => return Err(Reason::Closed),
            Ok(length) => {
                // SAFETY: the kernel wrote this many bytes into the spare capacity.
                unsafe { inbox.set_len(inbox.len() + length) };
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Reason::Io(error)),
        }
    }
}

/// A socket whose closing by the peer is an error, never SIGPIPE, and whose calls no signal ends.
struct NoSignal<'a>(&'a Socket);

impl Write for NoSignal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for NoSignal<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.0).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
