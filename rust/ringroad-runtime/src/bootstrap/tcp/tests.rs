//! Stores, agreements and lines between processes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{AccessKey, StoreMessage, StoreMessageKind};
use ringroad_core::agreement::{AgreementOutcome, Ballot, Decision, Proposer, ProposerRequest, Reply, Vote};

use super::*;
use crate::bootstrap::{Handle, Store, StoreError};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn own() -> (Server, Handle) {
    with_secret(None)
}

/// The handle as one of a process whose number says nothing here.
fn elsewhere(handle: &Handle) -> Handle {
    let mut text: serde_json::Value = serde_json::from_str(&handle.to_text()).unwrap();
    text["pid_space"] = "elsewhere".into();
    Handle::parse(&text.to_string()).unwrap()
}

fn with_secret(secret: Option<&str>) -> (Server, Handle) {
    let server = Server::start(secret).unwrap();
    let handle = Handle::from_server(&server, ServerReach::Machine, None).unwrap();
    (server, handle)
}

#[test]
fn a_store_of_another_process() {
    let (server, handle) = own();
    let store = TcpStore::connect(&handle, None, soon()).unwrap();
    assert_eq!(store.get("a store of another process"), Ok(None));
    let long = vec![7; 3 << 20];
    store.set("a store of another process", &long).unwrap();
    assert_eq!(server.values().get("a store of another process"), Ok(Some(long.clone())));
    assert_eq!(store.wait("a store of another process", soon()), Ok(long));
    let late = store.wait("never", Instant::now() + Duration::from_millis(50));
    assert!(matches!(late, Err(StoreError::Timeout { .. })), "{late:?}");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.wait("later", soon()));
        server.values().set("later", b"now").unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(b"now".to_vec()));
    });
    // A key that is too long is refused here, and the connection stays usable.
    assert!(store.set(&"k".repeat(2000), b"").is_err());
    assert_eq!(store.get("later"), Ok(Some(b"now".to_vec())));
}

#[test]
fn who_does_not_know_the_token_or_the_secret_is_refused() {
    let (_, handle) = own();
    let secret = TcpStore::connect(&handle, Some("other"), soon());
    assert!(matches!(secret, Err(UnreachableProcess::Stranger(..))), "{secret:?}");
    let mut guessed = handle.clone();
    guessed.token = [0; 16];
    assert!(matches!(TcpStore::connect(&guessed, None, soon()), Err(UnreachableProcess::Stranger(..))));
    let mut closed = handle;
    closed.places[0].set_port(1);
    let refused = TcpStore::connect(&elsewhere(&closed), None, soon());
    assert!(matches!(refused, Err(UnreachableProcess::Refused(_))), "a firewall may refuse");
    let visible = TcpStore::connect(&closed, None, soon());
    assert!(matches!(visible, Err(UnreachableProcess::Silent(_))), "its number says that it runs");
}

/// With a secret, nothing that travels can be read; without one, everything.
#[test]
fn what_travels_is_encrypted() {
    for secret in [None, Some("secret")] {
        let (_server, mut handle) = with_secret(secret);
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = std::mem::replace(&mut handle.places[0], door.local_addr().unwrap());
        let way = |mut from: TcpStream, mut to: TcpStream| {
            thread::spawn(move || {
                let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    all.extend_from_slice(&bytes[..count]);
                    to.write_all(&bytes[..count]).unwrap();
                }
                let _ = to.shutdown(std::net::Shutdown::Both);
                all
            })
        };
        let between = thread::spawn(move || {
            let (client, server) = (door.accept().unwrap().0, TcpStream::connect(place).unwrap());
            let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
            [way(ends.0, server), way(ends.1, client)]
        });
        let store = TcpStore::connect(&handle, secret, soon()).unwrap();
        let value = b"a word that ranks send ".repeat(10_000);
        store.set("a key that ranks send", &value).unwrap();
        assert_eq!(store.get("a key that ranks send"), Ok(Some(value)));
        drop(store);
        for heard in between.join().unwrap() {
            let heard = heard.join().unwrap();
            assert!(heard.len() > 230_000);
            let is_plain = heard.windows(15).any(|some| some == b"that ranks send");
            assert_eq!(is_plain, secret.is_none());
        }
    }
}

/// Communicators of one process may have different secrets. Each is served, and none opens what another protects.
#[test]
fn a_process_has_a_server_for_each_secret() {
    let secrets = [None, Some("one"), Some("two")];
    let handles = secrets.map(|secret| Handle::for_machine(secret).unwrap());
    for (handle, secret) in handles.iter().zip(secrets) {
        for other in secrets {
            let reached = TcpStore::connect(handle, other, soon());
            assert_eq!(reached.is_ok(), other == secret, "{other:?} at the server of {secret:?}");
        }
        let server = Server::for_process(secret).unwrap();
        assert_eq!(server.token(), &handle.token, "a secret has one server");
    }
}

/// After an error the rest of an answer may still come. It is not taken for the next one.
#[test]
fn an_error_ends_the_connection_but_not_the_store() {
    let (_, mut handle) = own();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    handle.places = vec![door.local_addr().unwrap()];
    let key = AccessKey::new(&handle.token, None);
    let server = thread::spawn(move || {
        let answers = [
            (StoreMessageKind::Get, "no answer"),
            (StoreMessageKind::Value, "old"),
            (StoreMessageKind::Value, "new"),
        ];
        for answers in [&answers[..2], &answers[2..]] {
            let (stream, _) = door.accept().unwrap();
            let mut channel = key.admit(Arc::new(stream)).unwrap().unwrap();
            StoreMessage::receive(&mut channel, Some(soon()), None).unwrap();
            for (kind, value) in answers {
                channel.send(*kind, "", value.as_bytes(), None).unwrap();
            }
        }
    });
    let store = TcpStore::connect(&handle, None, soon()).unwrap();
    let error = store.get("key").unwrap_err();
    assert!(error.to_string().contains("is not an answer"), "{error}");
    assert_eq!(store.get("key"), Ok(Some(b"new".to_vec())));
    server.join().unwrap();
}

/// Junk, huge lengths, half a handshake, and more idle connections than there are places: the server drops them,
/// and ranks can still connect.
#[test]
fn strangers_do_no_harm() {
    let (_server, handle) = own();
    let open = || TcpStream::connect(handle.places[0]).unwrap();
    let idle: Vec<TcpStream> = (0..300).map(|_| open()).collect();
    for junk in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[0; 47], b"ringroad"] {
        let mut stream = open();
        let _ = stream.write_all(junk);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Closed after it has been refused, or before that.
        let mut heard = Vec::new();
        match stream.read_to_end(&mut heard) {
            Ok(_) => assert!(heard.len() <= 48, "{heard:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    let store = TcpStore::connect(&handle, None, soon()).unwrap();
    store.set("strangers", b"none").unwrap();
    drop(idle);
}

/// A rank that takes up a connection and says nothing is slow, and no stranger: it is asked again until the deadline.
#[test]
fn slow_is_no_verdict() {
    let (server, mut handle) = own();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    handle.places[0] = door.local_addr().unwrap();
    let late = TcpStore::connect(&handle, None, Instant::now() + Duration::from_millis(50));
    assert!(matches!(late, Err(UnreachableProcess::Silent(_))), "{late:?}");
    let (tell, heard) = std::sync::mpsc::channel();
    let line = ProcessLine::open(7, handle.clone(), None, tell).unwrap();
    let next = || heard.recv_timeout(Duration::from_secs(20)).unwrap().1;
    line.ask(Question::Alive);
    let first = next();
    assert!(matches!(first, Heard::Unreached(UnreachableProcess::Silent(_))), "{first:?}");
    // From now on it answers, those first who have given up.
    server.listen(door).unwrap();
    while !matches!(next(), Heard::Alive) {}
}

/// A process that accepts a connection and does not answer is asked again over a new one.
#[test]
fn slow_answers_are_no_failures() {
    let (_, mut handle) = own();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    handle.places[0] = door.local_addr().unwrap();
    let key = AccessKey::new(&handle.token, None);
    let server = thread::spawn(move || {
        let admit = || key.admit(Arc::new(door.accept().unwrap().0)).unwrap().unwrap();
        let (mut slow, mut cut, mut quick) = (admit(), admit(), admit());
        for channel in [&mut slow, &mut cut, &mut quick] {
            StoreMessage::receive(channel, Some(soon()), None).unwrap();
        }
        drop(cut);
        quick.send(StoreMessageKind::Nothing, "", &[], None).unwrap();
        let mut again = admit();
        StoreMessage::receive(&mut again, Some(soon()), None).unwrap();
        again.send(StoreMessageKind::Value, "", b"again", None).unwrap();
        slow
    });
    let connect = || TcpStore::connect(&handle, None, soon()).unwrap().until(Instant::now());
    let [slow, cut, quick] = std::array::from_fn(|_| connect());
    thread::scope(|scope| {
        let slow = scope.spawn(|| slow.get("key"));
        let cut = scope.spawn(|| cut.get("key"));
        assert_eq!(quick.get("key"), Ok(None));
        assert_eq!(cut.join().unwrap(), Ok(Some(b"again".to_vec())), "its connection was closed");
        let late = slow.join().unwrap();
        assert!(matches!(late, Err(StoreError::Silent(_))), "{late:?}");
    });
    drop(server.join().unwrap());
}

/// Does something as another user, which only root can: by a thread, whose sockets and threads are that user's.
fn as_other<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let user = rustix::process::Uid::from_raw(61_000);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            act()
        });
        other.join().unwrap()
    })
}

/// Without a secret, users of a machine refuse each other, and are told why; root may ask all how they stand.
#[test]
fn other_users_need_the_secret() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for secret in [None, Some("secret")] {
        let (_own, handle) = with_secret(secret);
        let (_theirs, other) = as_other(|| with_secret(secret));
        let reached = as_other(|| TcpStore::connect(&handle, secret, soon()).map(drop));
        let back = TcpStore::connect(&other, secret, soon()).map(drop);
        let inquiry = Inquiry { members: false, stacks: false };
        let ask = |handle| {
            ask_all(std::slice::from_ref(handle), secret, inquiry, Duration::from_secs(20)).remove(0)
        };
        assert!(ask(&other).is_ok(), "root may ask");
        let asked = as_other(|| ask(&handle));
        if secret.is_some() {
            assert_eq!((reached, back, asked.is_ok()), (Ok(()), Ok(()), true));
            continue;
        }
        let text = |theirs, own| {
            format!(
                "belongs to user {theirs} of this machine, and this process runs as user {own}: set RINGROAD_SECRET to the \
                 same text for both"
            )
        };
        assert_eq!(reached, Err(UnreachableProcess::Stranger(handle.to_string(), text(0, 61_000))));
        assert_eq!(back, Err(UnreachableProcess::Stranger(other.to_string(), text(61_000, 0))));
        assert!(asked.as_ref().is_err_and(|asked| asked.0.contains(&text(0, 61_000))), "{asked:?}");
    }
}

/// A socket that is bound to an interface is found, too.
#[test]
#[allow(unsafe_code)]
fn nobody_hides_by_an_interface() {
    use std::os::fd::AsRawFd;

    use rustix::net::{AddressFamily, SocketType};

    use crate::os::interfaces::{address_towards, towards};
    let addresses = address_towards("192.0.2.1").into_iter().chain(["127.0.0.1".parse().unwrap()]);
    for address in addresses {
        let door = TcpListener::bind((address, 0)).unwrap();
        let to = door.local_addr().unwrap();
        let call = || {
            let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
            let device = towards(&address.to_string()).unwrap();
            let (fd, name, length) = (socket.as_raw_fd(), device.as_ptr().cast(), device.len() as u32);
            // SAFETY: the name lives through the call, and its length is given.
            let bound =
                unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name, length) };
            assert_eq!(bound, 0);
            rustix::net::connect(&socket, &to).unwrap();
            socket
        };
        let is_root = rustix::process::geteuid().is_root();
        let _caller = if is_root { as_other(call) } else { call() };
        let accepted = door.accept().unwrap().0;
        assert_eq!(crate::os::owner::other_user(&accepted).unwrap().is_some(), is_root, "at {address}");
    }
}

/// A server that closes a connection in the middle of the handshake has no place for it at the moment: the client tries
/// again.
#[test]
fn who_finds_no_place_comes_again() {
    let (_server, mut handle) = own();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = std::mem::replace(&mut handle.places[0], door.local_addr().unwrap());
    fn relay(from: &TcpStream, to: &TcpStream) -> thread::JoinHandle<()> {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || drop(std::io::copy(&mut from, &mut to)))
    }
    thread::spawn(move || {
        for attempt in 0.. {
            let (client, server) = (door.accept().unwrap().0, TcpStream::connect(place).unwrap());
            relay(&server, &client);
            if attempt > 0 {
                relay(&client, &server);
                continue;
            }
            (&client).read_exact(&mut [0]).unwrap();
            client.shutdown(Shutdown::Both).unwrap();
        }
    });
    let store = TcpStore::connect(&handle, None, soon()).unwrap();
    assert_eq!(store.get("key"), Ok(None));
}

/// Runs a test in a process of its own.
fn alone(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "RINGROAD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let name = format!("bootstrap::tcp::tests::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let ended = command.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && !ended.stdout.starts_with(b"running 0"), "{text}");
}

/// A process without free descriptors does not take others for silent.
#[test]
fn a_process_that_cannot_ask_says_so() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    alone("a_process_that_cannot_ask_says_so", || {
        let (_server, handle) = own();
        let (tell, heard) = std::sync::mpsc::channel();
        let line = ProcessLine::open(7, handle, None, tell).unwrap();
        let limits = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limits }).unwrap();
        line.ask(Question::Alive);
        let next = || heard.recv_timeout(Duration::from_secs(20)).unwrap();
        let (7, Heard::Unreached(why @ UnreachableProcess::Unable(..))) = next() else {
            panic!("it was asked, or taken for silent")
        };
        assert!(why.to_string().contains("limit of open files"), "{why}");
        setrlimit(Resource::Nofile, limits).unwrap();
        while !matches!(next(), (7, Heard::Alive)) {}
    });
}

/// The sockets at a port of this machine: of each, the kernel's timer and the inode.
fn sockets_at(port: u16) -> Vec<(String, String)> {
    let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let rows = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let here = rows.filter(|row| row[1].ends_with(&format!(":{port:04X}")));
    here.map(|row| (row[5].to_owned(), format!("socket:[{}]", row[9]))).collect()
}

/// Others notice the end of a process also if a child lives on that it has forked: that has none of its sockets. Those
/// whose other host vanishes are closed some day.
#[test]
#[allow(unsafe_code)]
fn sockets_end_with_their_process_or_their_host() {
    alone("sockets_end_with_their_process_or_their_host", || {
        let (_server, handle) = own();
        let _store = TcpStore::connect(&handle, None, soon()).unwrap();
        let sockets = sockets_at(handle.places[0].port());
        assert_eq!(sockets.len(), 2, "{sockets:?}");
        assert!(sockets.iter().any(|(timer, _)| timer.starts_with("02:")), "keep-alive: {sockets:?}");
        // SAFETY: the child only waits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: it waits for a signal.
                unsafe { libc::pause() };
            }
        }
        let open = |process: &str| {
            let all = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
            let links = all.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
            links.filter(|link| sockets.iter().any(|(_, socket)| link.as_os_str() == &**socket)).count()
        };
        assert_eq!(open("self"), 2);
        let limit = soon();
        while open(&child.to_string()) > 0 {
            assert!(Instant::now() < limit, "the child has kept sockets");
            thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    });
}

/// Others ask a rank's acceptor before, while and after the rank takes part; unknown and invalid questions do no harm.
#[test]
fn agreements_of_another_process() {
    let (server, handle) = own();
    let store = TcpStore::connect(&handle, None, soon()).unwrap();
    let at_once = || Instant::now() + Duration::from_millis(20);
    let ballot = Ballot { number: 1, leader: 0 };
    let ask =
        |number, request: &ProposerRequest| store.agree("group", number, 0, request, at_once()).unwrap();
    assert_eq!(ask(2, &ProposerRequest::Prepare(ballot)), Reply::Absent, "it has not come");
    let vote = Vote { flag: true, ..Vote::default() };
    server.rounds().with("group", 2, |acceptor| acceptor.join(vote));
    assert_eq!(ask(2, &ProposerRequest::Learn), Reply::Undecided(Vec::new()));
    assert_eq!(ask(2, &ProposerRequest::Prepare(ballot)), Reply::Promise { vote, accepted: None });
    let without = Decision { vote: true, alive: vec![1, 2] };
    assert_eq!(ask(2, &ProposerRequest::Accept(ballot, without)), Reply::Accepted { paused: false });
    assert_eq!(ask(2, &ProposerRequest::Learn), Reply::LeftOut);
    assert_eq!(ask(3, &ProposerRequest::Learn), Reply::Absent, "the next one");
    for number in [4, 6, 8] {
        server.rounds().with("group", number, |acceptor| acceptor.join(vote));
    }
    assert_eq!(ask(2, &ProposerRequest::Learn), Reply::LeftOut, "it is long over");
    // A rank that takes part no more stays out, whatever it calls. It still tells what it has decided.
    server.rounds().with("group", 8, |acceptor| Proposer::join(acceptor, 1, 2, vote).mark_dead(acceptor, 0));
    server.rounds().resign("group");
    let ask = |number| store.agree("group", number, 0, &ProposerRequest::Learn, at_once()).unwrap();
    assert!(matches!(ask(8), Reply::Decided(_)));
    assert_eq!((ask(6), ask(10)), (Reply::Resigned, Reply::Resigned));
    let joined = server.rounds().with("group", 10, |acceptor| Proposer::join(acceptor, 1, 2, vote));
    assert_eq!(joined.outcome(), Some(&AgreementOutcome::LeftOut));
    // Not a question: the server closes the connection, and the next request makes a new one.
    assert!(store.ask(StoreMessageKind::Agree, "group", b"nonsense", Duration::ZERO).is_err());
    assert_eq!(store.agree("other", 0, 0, &ProposerRequest::Learn, at_once()), Ok(Reply::Absent));
}

/// Anyone who reaches a process can ask for its state, and for the processes that run here. Nonsense is no question.
#[test]
fn processes_say_how_they_stand() {
    let handle = Handle::for_machine(Some("status")).unwrap();
    let ask = |handle: &Handle, secret| {
        let inquiry = Inquiry { members: false, stacks: true };
        ask_all(std::slice::from_ref(handle), Some(secret), inquiry, Duration::from_secs(20)).remove(0)
    };
    let report: serde_json::Value = serde_json::from_slice(&ask(&handle, "status").unwrap()).unwrap();
    assert_eq!(report["pid"], std::process::id());
    assert_eq!(report["no_stacks"], "no Python program runs there");
    let refused = ask(&handle, "other").unwrap_err();
    assert!(refused.0.contains("RINGROAD_SECRET") && !refused.1, "{refused:?}");
    let store = TcpStore::connect(&handle, Some("status"), soon()).unwrap();
    assert_eq!(store.tell(reports::GROUP, b"nonsense"), Ok(None));
    let here = local_processes().unwrap();
    let own = here.iter().filter(|process| process.pid == std::process::id());
    let found: Vec<_> = own.filter_map(|process| process.handle.as_ref()).collect();
    assert!(found.iter().any(|found| found.token == handle.token), "{here:?}");
}

/// A line answers each question once, and says when the process has ended.
#[test]
fn lines_tell_what_they_hear() {
    let (server, handle) = own();
    let (tell, heard) = std::sync::mpsc::channel();
    let line = ProcessLine::open(7, handle.clone(), None, tell.clone()).unwrap();
    let next = || heard.recv_timeout(Duration::from_secs(20)).unwrap();
    line.ask(Question::Set { key: "line".to_owned(), value: b"value".to_vec() });
    assert!(matches!(next(), (7, Heard::Alive)));
    assert_eq!(server.values().get("line"), Ok(Some(b"value".to_vec())));
    line.ask(Question::Alive);
    assert!(matches!(next(), (7, Heard::Alive)));
    let mut closed = handle;
    closed.places[0].set_port(1);
    let refused = ProcessLine::open(8, elsewhere(&closed), None, tell.clone()).unwrap();
    refused.ask(Question::Alive);
    assert!(matches!(next(), (8, Heard::Unreached(UnreachableProcess::Refused(_)))));
    drop(refused);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let number = |pid: u32| format!("\"pid\":{pid},");
    let ended = closed.to_text().replace(&number(std::process::id()), &number(child.id()));
    let gone = ProcessLine::open(9, Handle::parse(&ended).unwrap(), None, tell).unwrap();
    gone.ask(Question::Alive);
    let news = std::iter::repeat_with(next).find(|(line, _)| *line == 9).unwrap();
    assert!(matches!(news, (_, Heard::Ended(UnreachableProcess::Gone(_)))));
}

/// Only the orderly end of the stream proves that the other process has ended.
#[test]
fn a_life_line_ends_with_the_process() {
    let (_, handle) = own();
    assert!(!TcpStore::connect(&handle, None, soon()).unwrap().watch().unwrap().has_ended());
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let pair = || {
        let line = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        (LifeLine(line.into()), door.accept().unwrap().0)
    };
    let (line, process) = pair();
    assert!(!line.has_ended());
    drop(process);
    let end = soon();
    while !line.has_ended() && Instant::now() < end {}
    assert!(line.has_ended());
    // What was not read makes the kernel reset the connection, as a firewall does.
    let (line, process) = pair();
    (&*line.0).write_all(b"unread").unwrap();
    process.peek(&mut [0]).unwrap();
    drop(process);
    assert_eq!(line.0.peek(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(!line.has_ended());
}

#[test]
fn other_machines_reach_a_server_at_allowed_ports() {
    let server = Server::start(None).unwrap();
    let reach = ServerReach::Address("127.0.0.2".parse().unwrap());
    let places = server.places(reach, Some((23_000, 23_999))).unwrap();
    assert!((23_000..24_000).contains(&places[1].port()), "{places:?}");
    assert_eq!(server.places(reach, None).unwrap(), places, "the server listens there already");
}
