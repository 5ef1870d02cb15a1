//! A DNS server for tests, on this host.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Answers over UDP until it is dropped.
pub(super) struct DnsServer {
    pub(super) addr: SocketAddr,
    zone: Arc<Mutex<BTreeMap<Name, Vec<RData>>>>,
    task: JoinHandle<()>,
}

impl DnsServer {
    pub(super) async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addr = socket.local_addr().unwrap();
        let zone = Arc::<Mutex<BTreeMap<Name, Vec<RData>>>>::default();
        let known = Arc::clone(&zone);
        let task = tokio::spawn(async move {
            let mut buffer = [0; 4_096];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let question = Message::from_vec(&buffer[..length]).unwrap();
                if question.queries.iter().any(is_ignored) {
                    continue;
                }
                let answer = answer(&question, &known.lock().unwrap());
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        });
        Self { addr, zone, task }
    }

    /// Sets the records of a name: addresses, or ports and targets.
    pub(super) fn set(&self, name: &str, records: &[&str]) {
        let data = |record: &&str| match record.split_once(' ') {
            Some((port, target)) => {
                RData::SRV(SRV::new(1, 1, port.parse().unwrap(), target.parse().unwrap()))
            }
            None => record.parse::<IpAddr>().unwrap().into(),
        };
        let records = records.iter().map(data).collect();
        self.zone.lock().unwrap().insert(name.parse().unwrap(), records);
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Some servers say nothing of addresses of IPv6: this one of names that begin so.
fn is_ignored(query: &Query) -> bool {
    query.query_type() == RecordType::AAAA && query.name().to_ascii().starts_with("four-only.")
}

fn answer(question: &Message, zone: &BTreeMap<Name, Vec<RData>>) -> Message {
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    for query in &question.queries {
        answer.add_query(query.clone());
        let Some(records) = zone.get(query.name()) else {
            answer.metadata.response_code = ResponseCode::NXDomain;
            continue;
        };
        let records = records.iter().filter(|data| data.record_type() == query.query_type());
        answer.add_answers(
            records.map(|data| Record::from_rdata(query.name().clone(), 3_600, data.clone())),
        );
    }
    answer
}
