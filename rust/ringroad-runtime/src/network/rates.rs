//! How many bytes per second flows between hosts carry that run at the same time.
//!
//! A flow is a tcp connection over which a host sends as much as it can for a moment. The beginning does not count, and where
//! a flow has its links for itself, the fastest third does: buffers on the way let a burst through at first, and tcp, whose acknowledgements wait
//! in the queues of flows the other way, takes a while to fill the link. The receiver asks the kernel how much has come at
//! a time, because a thread that has to wait for its core reads late. A flow whose threads have waited for their cores is
//! starved: links may carry more than came.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size};
use serde::{Deserialize, Serialize};

use super::reach::Token;
use super::servers::Servers;
use crate::os::lock::{Condvar, Mutex};
use crate::os::ports::{bind, PortRange};
use crate::os::scheduler::{machine_is_busy, shorten, Cores};
use crate::os::tcp_info::TcpInfo;

/// A sender has no more bytes on the way than the fastest link needs, in bytes per second, and a few more: long queues
/// overflow, after which tcp takes longer to recover than a flow lasts, and acknowledgements wait in those of the flow back.
const FAST: f64 = 1.25e9;
const SHORT_WINDOW: f64 = 256e3;
/// The same once flows have run: in rates of the fastest one.
const FASTER: f64 = 2.0;
const SHORTER_WINDOW: f64 = 64e3;
/// A flow ends after so many bytes, however fast it is.
const MOST_BYTES: usize = 32 << 20;
const CHUNK: usize = 256 << 10;
/// A connection begins with a token, and the numbers of the round and of the sender.
const HELLO: usize = 24;
/// The round of a connection that brings no flow, but asks for an answer of one byte.
pub(super) const CONNECT_PROBE: u32 = u32::MAX;
/// How long a connection may take to be made, and then to say what it is.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often the thread that accepts looks whether it shall end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The most connections that are read at the same time.
const MOST_READERS: usize = 512;
/// The part of a flow that is left out at its beginning, where the measurement ends, and the part that counts.
const BEGIN: f64 = 0.25;
const END: f64 = 0.97;
const PART: f64 = 0.33;
/// How many such parts, which overlap, are compared.
const PARTS: usize = 8;
/// A number for which the kernel was asked for longer than this is not used, if there are enough others.
const DOUBTFUL: Duration = Duration::from_micros(100);
const ENOUGH: usize = 8;

/// A measured flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Bytes per second on average. Averages of flows that share a link add up to what the link carries.
    pub average: f64,
    /// Bytes per second of the fastest part. A flow that shares no link is as fast as its link then, however late the
    /// threads at its ends were at other times.
    pub fastest: f64,
    /// Whether the thread that received had to wait for its core.
    pub was_late: bool,
}

/// How many bytes had arrived at some times.
type Points = Vec<(Instant, f64)>;
/// Flows by the numbers of the round and of the sender.
type Results = Arc<(Mutex<HashMap<(u32, u32), FlowArrivals>>, Condvar)>;

/// What has arrived of a flow.
#[derive(Default)]
struct FlowArrivals {
    points: Points,
    /// Points for which the kernel took long to answer.
    doubtful: Points,
    has_ended: bool,
    was_late: bool,
}

impl FlowArrivals {
    fn points(&mut self) -> &Points {
        if self.points.len() < ENOUGH {
            self.points.append(&mut self.doubtful);
            self.points.sort_by_key(|(at, _)| *at);
        }
        &self.points
    }
}

/// Receives flows until it is dropped.
pub(super) struct Receiving {
    pub servers: Servers,
    results: Results,
}

impl Receiving {
    /// Begins to receive from hosts that know the token.
    pub fn begin(token: Token, ports: PortRange) -> io::Result<Receiving> {
        let results = Results::default();
        let servers = Servers::begin("ringroad-flows", |is_ipv6| {
            let any: IpAddr =
                if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            let listener = bind(any, ports, TcpListener::bind)?;
            listener.set_nonblocking(true)?;
            let (port, results) = (listener.local_addr()?.port(), results.clone());
            Ok((port, move |stop: &AtomicBool| accept(&listener, token, stop, &results)))
        })?;
        Ok(Receiving { servers, results })
    }

    /// What was measured of the flow from this host in this round, which began at `start` and took so long, once it has
    /// ended, or by `until`: its end may be lost on a full link. `None` if nothing has come of it.
    pub fn take_measurement(
        &self,
        flow: (u32, u32),
        start: Instant,
        duration: Duration,
        until: Instant,
    ) -> Option<Measured> {
        let (all, changed) = &*self.results;
        let mut all = all.lock();
        let has_ended = |arrivals: &FlowArrivals| arrivals.has_ended;
        while !all.get(&flow).is_some_and(has_ended) && !changed.wait_until(&mut all, until).timed_out() {}
        let mut arrivals = all.remove(&flow)?;
        let (average, fastest) = evaluate(arrivals.points(), start, duration)?;
        Some(Measured { average, fastest, was_late: arrivals.was_late })
    }
}

fn accept(listener: &TcpListener, token: Token, stop: &AtomicBool, results: &Results) {
    let mut readers: Vec<JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        readers.retain(|reader| !reader.is_finished());
        match listener.accept() {
            Ok((stream, _)) if readers.len() < MOST_READERS => {
                let results = results.clone();
                let read = move || {
                    shorten();
                    receive(stream, token, &results);
                };
                let thread = std::thread::Builder::new().name("ringroad-flow".to_owned());
                readers.extend(thread.spawn(read));
            }
            Ok(_) => {}
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Reads a connection to its end, and notes what arrives, unless it is a stranger's.
fn receive(mut stream: TcpStream, token: Token, results: &Results) -> Option<()> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT)).ok()?;
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).ok()?;
    let number = |at: usize| hello[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    if hello[..token.len()] != token {
        return None;
    }
    let flow = (number(16)?, number(20)?);
    if flow.0 == CONNECT_PROBE {
        let _ = stream.write_all(&[0]);
        return None;
    }
    // A receiver that has waited long enough has taken what had arrived, and wants no more.
    let (all, changed) = &**results;
    let note = |change: &dyn Fn(&mut FlowArrivals)| all.lock().get_mut(&flow).map(change);
    all.lock().insert(flow, FlowArrivals::default());
    // The flow begins when all hosts are ready.
    stream.set_read_timeout(Some(4 * CONNECT_TIMEOUT)).ok()?;
    let (mut chunk, mut total, mut cores) = (vec![0; CHUNK], 0u64, None);
    // The kernel is asked now and then for how long this thread has waited: that takes as long as some reads.
    let (mut asked, mut was_late) = (None::<Instant>, false);
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        total += length as u64;
        // What has arrived by now may have waited for this thread.
        let now = Instant::now();
        let arrived = TcpInfo::from_socket(&stream).map_or(total, |info| info.received().max(total));
        let good = now.elapsed() < DOUBTFUL;
        if asked.is_none_or(|asked| now - asked >= POLL_INTERVAL) {
            asked = Some(now);
            was_late = is_late(*cores.get_or_insert_with(Cores::of_thread));
        }
        note(&|arrivals| {
            if good { &mut arrivals.points } else { &mut arrivals.doubtful }.push((now, arrived as f64));
            arrivals.was_late = was_late;
        })?;
        if total >= 2 * MOST_BYTES as u64 {
            break;
        }
    }
    note(&|arrivals| arrivals.has_ended = true)?;
    changed.notify_all();
    Some(())
}

/// The average and the fastest rate of a flow in a round that began at `start` and took so long. The average is that of the
/// same part of the round for all flows, unless the flow had nothing more to send before: one that stalls leaves the link
/// to the others.
fn evaluate(points: &[(Instant, f64)], start: Instant, duration: Duration) -> Option<(f64, f64)> {
    let since = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
    let points: Vec<(f64, f64)> = points.iter().map(|(at, bytes)| (since(*at), *bytes)).collect();
    let (first, (last, total)) = (points.first()?.0, *points.last()?);
    // By how many bytes had come at a time: between two points as many as on the line between them.
    let bytes = |time: f64| {
        let next = points.partition_point(|point| point.0 < time).clamp(1, points.len() - 1);
        let ((earlier, before), (later, after)) = (points[next - 1], points[next]);
        let part = if later > earlier { ((time - earlier) / (later - earlier)).clamp(0.0, 1.0) } else { 1.0 };
        before + part * (after - before)
    };
    let slope = |from: f64, to: f64| (to > from).then(|| (bytes(to) - bytes(from)) / (to - from));
    let whole = duration.as_secs_f64();
    let is_complete = total >= MOST_BYTES as f64;
    let (begin, end) = if is_complete { (first, last) } else { (0.0, whole) };
    let at = |part: f64| begin + part * (end - begin);
    if points.len() < 2 {
        return None;
    }
    let start = |number: usize| BEGIN + (END - PART - BEGIN) * number as f64 / (PARTS - 1) as f64;
    let parts = (0..PARTS).filter_map(|number| slope(at(start(number)), at(start(number) + PART)));
    Some((slope(at(BEGIN), at(END))?, parts.reduce(f64::max)?))
}

/// How many bytes may be on the way to a host whose answers take so many seconds. `fastest`: the rate of the fastest flow so
/// far, in bytes per second. Flows that leave a host together share its window.
pub(super) fn window(seconds: f64, fastest: Option<f64>, flows: usize) -> usize {
    let (least, rate) =
        fastest.map_or((SHORT_WINDOW, FAST), |rate| (SHORTER_WINDOW, (FASTER * rate).min(FAST)));
    ((least + seconds.min(1.0) * rate) / flows.max(1) as f64) as usize
}

/// Makes the connection of a flow.
pub(super) fn connect(
    to: SocketAddr,
    window: usize,
    token: &Token,
    round: u32,
    from: u32,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    set_socket_send_buffer_size(&stream, window.min(MOST_BYTES))?;
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    greet(&mut stream, token, round, from)?;
    Ok(stream)
}

/// Says what a connection is.
pub(super) fn greet(stream: &mut TcpStream, token: &Token, round: u32, from: u32) -> io::Result<()> {
    stream.write_all(&[&token[..], &round.to_be_bytes(), &from.to_be_bytes()].concat())
}

/// Whether this thread, or those of the machine, had to wait for their cores since then.
fn is_late(since: Cores) -> bool {
    machine_is_busy() || since.were_busy(Cores::of_thread())
}

/// Sends to these hosts at once, for so long. Returns those for which a thread had to wait for its core.
pub(super) fn send(streams: Vec<(usize, TcpStream)>, duration: Duration) -> Vec<usize> {
    let send = |(to, mut stream): (usize, TcpStream)| {
        // On busy cores a thread with short time slices runs as soon as there is something to do.
        shorten();
        let (chunk, mut sent) = (vec![0; CHUNK], 0);
        let (cores, start) = (Cores::of_thread(), Instant::now());
        while let Some(left) = duration.checked_sub(start.elapsed()).filter(|_| sent < MOST_BYTES) {
            // A receiver that does not read ends the flow; it has counted what came.
            let _ = stream.set_write_timeout(Some(left.max(Duration::from_millis(1))));
            match stream.write(&chunk) {
                Ok(length @ 1..) => sent += length,
                _ => break,
            }
        }
        let was_late = is_late(cores);
        // What has not left this host would only delay what comes next.
        if sent < MOST_BYTES {
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
        }
        was_late.then_some(to)
    };
    std::thread::scope(|scope| {
        // A flow for which there is no thread is one that is not measured.
        let spawn = |stream| std::thread::Builder::new().spawn_scoped(scope, move || send(stream)).ok();
        let threads: Vec<_> = streams.into_iter().filter_map(spawn).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("sends without a panic")).collect()
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_steady_part() {
        // A burst of 500 bytes, then 100 bytes per second.
        let start = Instant::now();
        let second = |number: f64| start + Duration::from_secs_f64(number);
        let points: Points =
            (0..=1000).map(|t| (second(f64::from(t) / 100.0), 500.0 + f64::from(t))).collect();
        let measured = evaluate(&points, start, Duration::from_secs(10)).unwrap();
        assert!((measured.0 - 100.0).abs() < 1.0 && (measured.1 - 100.0).abs() < 1.0, "{measured:?}");
        // If nothing comes for a while, the average is lower, and not if nothing is left to be sent.
        let quiet = evaluate(&points, start, Duration::from_secs(20)).unwrap();
        assert!(quiet.1 > 70.0 && quiet.0 < 50.0, "{quiet:?}");
        let large: Points =
            points.iter().map(|(at, bytes)| (*at, bytes * MOST_BYTES as f64 / 1500.0)).collect();
        let complete = evaluate(&large, start, Duration::from_secs(20)).unwrap();
        assert!((complete.0 / complete.1 - 1.0).abs() < 0.01, "{complete:?}");
        assert_eq!(evaluate(&[], start, Duration::ZERO), None);
        assert_eq!(evaluate(&[(start, 5.0)], start, Duration::ZERO), None);
    }

    #[test]
    fn flows_are_measured_at_the_receiver() {
        let receiving = Receiving::begin([3; 16], None).unwrap();
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), receiving.servers.ports[0].unwrap());
        let strange = connect(to, window(0.0, None, 1), &[4; 16], 0, 5).unwrap();
        let own = connect(to, window(0.0, Some(1e6), 1), &[3; 16], 0, 5).unwrap();
        let (start, duration) = (Instant::now(), Duration::from_millis(50));
        send(vec![(0, own), (1, strange)], duration);
        let until = start + Duration::from_secs(20);
        let measured = receiving.take_measurement((0, 5), start, duration, until).expect("it has come");
        assert!(measured.fastest > 0.0);
        assert_eq!(receiving.take_measurement((1, 5), start, duration, start), None);
    }
}
