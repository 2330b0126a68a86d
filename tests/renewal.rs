//! The renewal thread as Rust code sees it, with many threads at it and without PHP: for a thread sanitizer
//! to watch. `php-tests/Renewal/` tests what it does for PHP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use redis_lease::{
    clock::Moment,
    error::Error,
    host::Unattended,
    lease::{Auto, Lock, Loss},
    net::Timeouts,
    renewal::{self, Confirmed, Lease},
    store::{self, Keys},
};
use std::{
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const MILLI: Duration = Duration::from_millis(1);
const TIMEOUTS: Timeouts = Timeouts { connect: Duration::from_secs(5), command: Duration::from_secs(5), spin: MILLI };

/// There is one thread per process, and one of the tests stops it.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let by = Moment::now() + Duration::from_secs(20);
    while !condition() {
        assert!(!by.is_past(), "not in 20 s: {what}");
        thread::sleep(MILLI);
    }
}

/// A lease on a server that nobody runs, and how often its bell has rung.
fn unreachable(ttl: Duration) -> (renewal::Renewal, Arc<AtomicUsize>) {
    let rung = Arc::new(AtomicUsize::new(0));
    let bell: renewal::Bell = {
        let rung = Arc::clone(&rung);
        Arc::new(move || {
            rung.fetch_add(1, Ordering::Relaxed);
        })
    };
    let lease = Lease {
        dsn: "unix:///dev/null/no-redis".into(),
        keys: Keys::new(b"lock:", b"order:1"),
        token: b"a token".to_vec(),
        timeouts: TIMEOUTS,
    };
    let now = Moment::now();
    let confirmed = Confirmed { sent_at: now, ttl, fence: 7 };
    let hold_until = now + Duration::from_secs(60);
    (renewal::keep(lease, confirmed, ttl, hold_until, Some(bell)).unwrap(), rung)
}

#[test]
fn a_lease_that_cannot_be_renewed_is_lost_when_its_validity_ends_and_its_bell_rings_once() {
    let _turn = alone();
    let (renewal, rung) = unreachable(MILLI * 200);
    assert_eq!(renewal.news().unwrap().loss, None);
    wait_for("the bell rings", || rung.load(Ordering::Relaxed) > 0);
    let news = renewal.news().unwrap();
    assert_eq!((news.loss, news.fence), (Some(Loss::Unreachable), 7));
    assert!(news.valid_until.is_past());
    assert!(Moment::now().since(news.valid_until) < Duration::from_secs(1));
    assert_eq!(renewal.take_abort(), Some(Loss::Unreachable));
    assert_eq!(renewal.take_abort(), None);
    thread::sleep(MILLI * 50);
    assert_eq!(rung.load(Ordering::Relaxed), 1);
}

#[test]
fn what_was_given_back_rings_no_bell() {
    let _turn = alone();
    let kept: Vec<_> = (0..50).map(|i| unreachable(MILLI * (20 + i % 5))).collect();
    let (given_back, rung): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
    thread::sleep(MILLI * 10);
    drop(given_back);
    let before: usize = rung.iter().map(|rung| rung.load(Ordering::Relaxed)).sum();
    thread::sleep(MILLI * 100);
    assert_eq!(rung.iter().map(|rung| rung.load(Ordering::Relaxed)).sum::<usize>(), before);
}

#[test]
fn the_thread_ends_when_it_is_stopped_and_can_begin_again() {
    let _turn = alone();
    for _ in 0..3 {
        let (_renewal, _) = unreachable(Duration::from_secs(60));
        assert_eq!(renewal::status(), Some(1));
        renewal::stop();
        assert_eq!(renewal::status(), None);
    }
}

#[test]
fn many_threads_keep_leases_and_give_them_back() {
    let _turn = alone();
    let Some(server) = Server::start() else { return };
    let held = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let (server, held) = (&server, &held);
            scope.spawn(move || {
                let store = store::open(&server.dsn()).unwrap();
                for cycle in 0..60 {
                    let ttl = MILLI * (30 + u32::try_from(cycle % 40).unwrap());
                    let auto = Auto {
                        dsn: server.dsn().into(),
                        max_hold: Duration::from_secs(60),
                        bell: Some(Arc::new(|| {})),
                    };
                    let keys = Keys::new(b"lock:", format!("{number}:{cycle}").as_bytes());
                    let lock = Lock::new(store.clone(), keys, ttl, TIMEOUTS, Some(auto));
                    match lock.acquire(Duration::ZERO, &Unattended) {
                        Ok(true) => {}
                        // On a busy machine an answer may come later than so short a lease is valid.
                        Err(Error::Late) => continue,
                        other => panic!("{number}:{cycle}: {other:?}"),
                    }
                    for _ in 0..(number + cycle) % 30 {
                        held.fetch_add(usize::from(lock.is_held() && lock.loss().is_none()), Ordering::Relaxed);
                        thread::sleep(MILLI);
                    }
                    let _ = lock.release();
                    lock.drop_now();
                }
                store::close_all();
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                let _ = renewal::status();
                thread::sleep(MILLI);
            }
        });
    });
    assert!(held.load(Ordering::Relaxed) > 100);
    assert_eq!(renewal::status(), Some(0));
    renewal::stop();
}

/// A server of the test's own, if there is one to run.
struct Server {
    process: Child,
    directory: PathBuf,
}

impl Server {
    fn start() -> Option<Self> {
        let directory = std::env::temp_dir().join(format!("redis_lease.{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
        let process = Command::new(program)
            .args(["--port", "0", "--save", "", "--unixsocket", "s"])
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self { process, directory };
        wait_for("the server listens", || UnixStream::connect(server.directory.join("s")).is_ok());
        Some(server)
    }

    fn dsn(&self) -> String {
        format!("unix://{}/s", self.directory.display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
