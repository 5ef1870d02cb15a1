//! Whether the network does what it is set to.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::round::{HOT, Round, report_lab};
use crate::figure::{Bounds, Figures};
use crate::lab::Lab;
use crate::place::{Place, address};
use crate::weather::Weather;

/// Datagrams in each direction, and how much later one follows another.
const DATAGRAMS: u32 = 2_000;
const EVERY: Duration = Duration::from_micros(500);
const PORT: u16 = 7_000;
/// How long after the last one an answer may arrive.
const PATIENCE: Duration = Duration::from_millis(300);

pub fn run(round: &Round, figures: &mut Figures) -> Result<(), String> {
    let lab = round.lab(2, HOT)?;
    let echo = echo(lab.place(1)).map_err(|error| format!("an echo: {error}"))?;
    let conditions = round.args.conditions();
    let (arrived, mean) = ask(&lab)?;
    let kept = 1.0 - conditions.loss;
    // Both ways; and what arrives twice is counted twice.
    let expected = f64::powi(kept * (1.0 + conditions.doubled), 2);
    let error = arrived / expected - 1.0;
    figures.demand("arrived_error", error, Bounds::around(0.0, 0.05), Bounds::around(0.0, 0.02));
    let intended = 1e3 * (2 * conditions.delay + conditions.jitter).as_secs_f64();
    let late = mean - intended;
    figures.demand("round_trip_late_ms", late, Bounds(0.0, 1.0), Bounds(0.0, 0.3));
    for (figure, from, to) in [("arrived_cut_there", 0, 1), ("arrived_cut_back", 1, 0)] {
        lab.switch.weather(|weather| weather.cut(from, to));
        let none = Bounds::around(0.0, 0.0);
        figures.demand(figure, ask(&lab)?.0, none, none);
        lab.switch.weather(Weather::heal);
    }
    report_lab(&lab, figures);
    drop(echo);
    Ok(())
}

/// Answers datagrams at a place until the handle is dropped.
fn echo(place: &Place) -> std::io::Result<Arc<UdpSocket>> {
    let socket = place.run(|| UdpSocket::bind((address(1), PORT)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let socket = Arc::new(socket);
    let answering = Arc::downgrade(&socket);
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Some(socket) = answering.upgrade() {
            if let Ok((count, from)) = socket.recv_from(&mut bytes) {
                // What cannot be sent counts as lost.
                let _ = socket.send_to(&bytes[..count], from);
            }
        }
    });
    Ok(socket)
}

/// Sends datagrams; the part that was answered, and the mean round trip in milliseconds.
fn ask(lab: &Lab) -> Result<(f64, f64), String> {
    let wrong = |error: std::io::Error| format!("a datagram: {error}");
    let socket = lab.place(0).run(|| UdpSocket::bind((address(0), 0))).map_err(wrong)?;
    socket.connect(SocketAddr::from((address(1), PORT))).map_err(wrong)?;
    let start = Instant::now();
    let since_start = move || start.elapsed().as_nanos() as u64;
    let sender = socket.try_clone().map_err(wrong)?;
    let sending = std::thread::spawn(move || {
        for _ in 0..DATAGRAMS {
            let _ = sender.send(&since_start().to_le_bytes());
            std::thread::sleep(EVERY);
        }
    });
    socket.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
    let (mut count, mut all, mut bytes) = (0_u32, 0, [0; 8]);
    while count < 4 * DATAGRAMS && (socket.recv(&mut bytes).is_ok() || !sending.is_finished()) {
        let sent = std::mem::take(&mut bytes);
        if sent != [0; 8] {
            all += since_start() - u64::from_le_bytes(sent);
            count += 1;
        }
    }
    sending.join().map_err(|_| "the sender of datagrams failed")?;
    Ok((f64::from(count) / f64::from(DATAGRAMS), all as f64 / 1e6 / f64::from(count.max(1))))
}
