//! Loss that stops the work: the renewal thread rings this PHP thread's bell, and at its next check the
//! engine throws a `LeaseLostException`, as an asynchronous signal handler would.

use super::{
    exceptions::{Failure, Thrown, Trouble},
    interrupts,
};
use crate::{
    lease,
    metrics::{self, Counter},
    process, renewal,
};
use ext_php_rs::{
    ffi::zend_interrupt_function,
    zend::{ExecuteData, ExecutorGlobals},
};
use std::{
    cell::RefCell,
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    panic, ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
};

/// The bell of one PHP thread.
struct Bell {
    /// In a forked child it is the parent's, and silent.
    pid: u32,
    is_rung: AtomicBool,
    /// Ends a sleep of ours, for which no flag is enough.
    wake: OwnedFd,
    /// The engine's. It is touched only while a lease of this thread is kept, and no lease outlives its request.
    interrupt: &'static AtomicBool,
}

type Interrupt = unsafe extern "C" fn(*mut ExecuteData);

thread_local! {
    static BELL: RefCell<Option<Arc<Bell>>> = const { RefCell::new(None) };
}

/// What stood in our place before: pcntl's, if that was loaded first.
static PREVIOUS: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Takes our place among those whom the engine asks between two opcodes.
pub fn install() {
    // SAFETY: at module startup, in the only thread there is.
    unsafe {
        if !is_ours(zend_interrupt_function) {
            PREVIOUS.store(zend_interrupt_function.map_or(ptr::null_mut(), |it| it as *mut ()), Ordering::Release);
            zend_interrupt_function = Some(interrupted);
        }
    }
}

/// Gives the place up, unless somebody has taken one before us since.
pub fn uninstall() {
    // SAFETY: at module shutdown, when no PHP code runs any more.
    unsafe {
        if is_ours(zend_interrupt_function) {
            zend_interrupt_function = previous();
        }
    }
}

fn is_ours(function: Option<Interrupt>) -> bool {
    function.is_some_and(|function| ptr::fn_addr_eq(function, interrupted as Interrupt))
}

/// The bell for leases of this thread.
pub fn bell() -> Result<renewal::Bell, Thrown> {
    let bell = BELL.with_borrow_mut(|slot| match slot {
        Some(bell) if bell.pid == process::id() => Ok(Arc::clone(bell)),
        slot => Bell::new().map(|bell| Arc::clone(slot.insert(Arc::new(bell)))),
    });
    let bell = bell.map_err(|error| Thrown::Error(format!("The system gave no event descriptor: {error}")))?;
    Ok(Arc::new(move || bell.ring()))
}

/// Whether a lease of this thread may have been lost since the engine last looked.
pub fn is_rung() -> bool {
    with_bell(|bell| bell.is_rung.load(Ordering::Acquire)).unwrap_or(false)
}

/// The descriptor that becomes readable when the bell rings; -1 where there is no bell.
pub fn waker() -> RawFd {
    with_bell(|bell| bell.wake.as_raw_fd()).unwrap_or(-1)
}

fn with_bell<T>(ask: impl FnOnce(&Bell) -> T) -> Option<T> {
    BELL.with_borrow(|bell| bell.as_ref().filter(|bell| bell.pid == process::id()).map(|bell| ask(bell)))
}

impl Bell {
    fn new() -> io::Result<Self> {
        // SAFETY: takes two numbers; the descriptor it makes is nobody else's.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let wake = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { pid: process::id(), is_rung: AtomicBool::new(false), wake, interrupt: interrupts::interrupt() })
    }

    fn ring(&self) {
        // The descriptor first: who sees a flag empties it, and must not find it filled again later.
        let one = 1_u64;
        // SAFETY: writes the eight bytes of a number that lives through the call.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), size_of_val(&one)) };
        self.is_rung.store(true, Ordering::Release);
        self.interrupt.store(true, Ordering::Release);
    }

    /// Whether it was rung; silent from here on.
    fn silence(&self) -> bool {
        if !self.is_rung.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut count = 0_u64;
        // SAFETY: reads at most the eight bytes of a number that lives through the call.
        unsafe { libc::read(self.wake.as_raw_fd(), (&raw mut count).cast(), size_of_val(&count)) };
        true
    }
}

unsafe extern "C" fn interrupted(frame: *mut ExecuteData) {
    if let Some(previous) = previous() {
        // SAFETY: what the engine would have called in our place, with what it passed. It may jump over this
        // frame, which holds nothing that needs dropping.
        unsafe { previous(frame) };
    }
    let _ = panic::catch_unwind(deliver);
}

fn previous() -> Option<Interrupt> {
    let pointer = PREVIOUS.load(Ordering::Acquire);
    // SAFETY: null, or the function that `install` found.
    (!pointer.is_null()).then(|| unsafe { mem::transmute::<*mut (), Interrupt>(pointer) })
}

/// Throws for every lease that was lost; of several at one moment, each is the cause of the next.
fn deliver() {
    if !is_rung() {
        return;
    }
    if ExecutorGlobals::has_exception() {
        // It comes first. The flag cannot be set again from here: the engine would look for ever, and not go on.
        lease::put_off_aborts();
        return;
    }
    with_bell(Bell::silence);
    for (lock, loss) in lease::aborted() {
        metrics::count(Counter::Aborted);
        let resource = Some(lock.resource().to_vec());
        let failure = Failure { trouble: Trouble::Aborted(loss), resource, token: None, fence: None };
        drop(lock);
        Thrown::Lease(Box::new(failure)).throw();
    }
}
