//! What can be told to a running development server: the typed commands and their replies. The control socket and
//! `serve --apply` read them as JSON, `DevServer::apply` takes them as they are. Pure data: what a command does is
//! in `devserver.rs`, what a fault does in `server.rs`, `respond.rs` and `limiter/answer.rs`, in DNS in `dns/zone.rs`.

mod reply;
mod text;

pub use reply::{DnsCounts, Ignored, Reply, ServerStatus, Status, Verdicts};

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// One command. In JSON an object with a `command` member: `{"command":"fault","servers":[1015809],"fault":"silent"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Sets a fault; the same fault set again replaces its parameters.
    Fault {
        /// Which servers.
        #[serde(default)]
        servers: Servers,
        /// Which fault.
        fault: Fault,
    },
    /// Clears faults. Clearing `hold` sends the answers held, in the order of their arrival.
    Clear {
        /// Which servers.
        #[serde(default)]
        servers: Servers,
        /// Which faults; all of them where nothing is named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        faults: Vec<FaultKind>,
    },
    /// Sends answers that `hold` keeps back; the fault itself stays on.
    Release {
        /// Which servers' answers.
        #[serde(default)]
        servers: Servers,
        /// In which order.
        #[serde(default)]
        order: Order,
    },
    /// Closes servers' sockets: the kernel then answers with an ICMP port unreachable. Answers delayed or held are lost.
    Down {
        /// Which servers.
        #[serde(default)]
        servers: Servers,
    },
    /// Opens servers' sockets again, each on the port it had.
    Up {
        /// Which servers.
        #[serde(default)]
        servers: Servers,
    },
    /// Sets a DNS fault; the same fault set again replaces its parameters.
    Dns {
        /// Which fault.
        fault: DnsFault,
    },
    /// Clears DNS faults.
    ClearDns {
        /// Which faults; all of them where nothing is named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        faults: Vec<DnsFaultKind>,
    },
    /// Changes the zone's SRV records: first the removals, then the additions.
    Members {
        /// Ids that vanish from the zone; the servers themselves stay up.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remove: Vec<u64>,
        /// Members that appear in the zone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        add: Vec<Member>,
    },
    /// Changes the TTL of the zone's records, in seconds.
    Ttl {
        /// Seconds.
        seconds: u32,
    },
    /// Tells servers, faults and counters.
    Status,
    /// Clears every fault, DNS fault, bucket, tracker and remembered request, drops answers held or delayed, opens
    /// closed sockets and lists the zone's first members and TTL again. Recorded events and counters stay.
    Reset,
}

/// Which servers a command is for. In JSON a list of ids; absent means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<Vec<u64>>", into = "Option<Vec<u64>>")]
pub enum Servers {
    /// Every server.
    #[default]
    All,
    /// The servers of these ids.
    Only(Vec<u64>),
}

impl Servers {
    /// Whether a server is meant.
    pub fn contains(&self, id: u64) -> bool {
        match self {
            Servers::All => true,
            Servers::Only(ids) => ids.contains(&id),
        }
    }
}

impl From<Option<Vec<u64>>> for Servers {
    fn from(ids: Option<Vec<u64>>) -> Servers {
        ids.map_or(Servers::All, Servers::Only)
    }
}

impl From<Servers> for Option<Vec<u64>> {
    fn from(servers: Servers) -> Self {
        match servers {
            Servers::All => None,
            Servers::Only(ids) => Some(ids),
        }
    }
}

impl From<u64> for Servers {
    fn from(id: u64) -> Servers {
        Servers::Only(vec![id])
    }
}

impl<const N: usize> From<[u64; N]> for Servers {
    fn from(ids: [u64; N]) -> Servers {
        Servers::Only(ids.to_vec())
    }
}

/// What may go wrong at a server. In JSON `"silent"` for a fault without parameters, `{"delay":{"ms":200}}` for others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Datagrams get lost with this probability (0 to 1).
    Drop {
        /// 0 never, 1 always.
        probability: f64,
        /// What gets lost: requests (recorded, not decided) or answers (decided, not sent).
        #[serde(default)]
        of: Lost,
    },
    /// Every answer waits before it is sent.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// Every answer waits an additional random time.
    Jitter {
        /// Longest addition, milliseconds.
        ms: u64,
    },
    /// Every answer is sent more than once.
    Duplicate {
        /// Copies beyond the first.
        extra: u32,
    },
    /// Answers are sealed with a secret that is not the key's.
    WrongAuthentication,
    /// Answers are cut.
    Truncated {
        /// Bytes that remain; half of the answer where nothing is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<usize>,
    },
    /// Answers name a random request.
    WrongRequestId,
    /// Answers name this server instead of the one that answers.
    WrongServerId {
        /// The id in the answer.
        id: u64,
    },
    /// Answers carry no guard and no resource.
    EmptyResults,
    /// Answers lack their last entry (a resource where there is one, else a guard).
    ShortResults,
    /// Answers carry one resource more than was asked for.
    ExtraResults,
    /// Answers ask for a new UDP source port (steering feedback 0).
    Rebind,
    /// Every answer is an allow.
    ForceAllow,
    /// Every answer is a deny.
    ForceDeny,
    /// Answers to the requests that match are a deny, even under `force_allow`. May be set for several labels and buckets.
    ForceDenyOf {
        /// The request's metrics label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// A bucket of the request, as after `--name bucket=`: `checkout@100r/m`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bucket: Option<String>,
    },
    /// One guard's current latency is given. May be set for several guards.
    Latency {
        /// The guard's place in the request, from 0.
        guard: usize,
        /// Milliseconds.
        ms: u32,
    },
    /// One resource's deficit is given. May be set for several resources.
    Deficit {
        /// The resource's place in the request, from 0.
        resource: usize,
        /// Tokens.
        tokens: u16,
    },
    /// Answers are collected until a `release` or until the fault is cleared.
    Hold,
    /// Requests are recorded, neither decided nor answered.
    Silent,
}

/// A fault's name, for clearing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is documented at the fault of its name")]
pub enum FaultKind {
    Drop,
    Delay,
    Jitter,
    Duplicate,
    WrongAuthentication,
    Truncated,
    WrongRequestId,
    WrongServerId,
    EmptyResults,
    ShortResults,
    ExtraResults,
    Rebind,
    ForceAllow,
    ForceDeny,
    ForceDenyOf,
    Latency,
    Deficit,
    Hold,
    Silent,
}

/// What the fault `drop` loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The datagram never arrives: nothing is decided or consumed.
    #[default]
    Requests,
    /// The request is decided and consumes, its answer is not sent.
    Answers,
}

/// The order in which held answers leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As they were made.
    #[default]
    Fifo,
    /// The youngest first.
    Reverse,
    /// By their places in the list of held answers, from 0, oldest first. Answers not named stay held.
    List(Vec<usize>),
}

/// What may go wrong in DNS. In JSON like `Fault`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DnsFault {
    /// The SRV name exists and has no SRV record.
    NoSrv,
    /// SRV targets exist and have no address.
    NoAddress {
        /// Whose targets.
        #[serde(default)]
        servers: Servers,
    },
    /// SRV targets do not exist (NXDOMAIN).
    NoTarget {
        /// Whose targets.
        #[serde(default)]
        servers: Servers,
    },
    /// SRV targets are named `server-<id>` instead of `s-<id>`; they have addresses.
    BadTarget {
        /// Whose targets.
        #[serde(default)]
        servers: Servers,
    },
    /// Every answer is SERVFAIL.
    ServFail,
    /// Every answer waits.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// No query is answered.
    Silent,
    /// Answers over UDP are empty and carry the TC bit; answers over TCP are complete.
    Truncate,
    /// Queries for addresses of SRV targets go wrong, those for SRV records do not. May be set for several servers and
    /// families.
    Addresses {
        /// Whose targets.
        #[serde(default)]
        servers: Servers,
        /// Which family's records; both where nothing is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        family: Option<Family>,
        /// What happens instead of the answer.
        answer: AddressAnswer,
    },
    /// Queries with EDNS are answered as by a server from before EDNS; queries without it are answered.
    NoEdns {
        /// How they are answered.
        #[serde(default)]
        code: NoEdnsCode,
        /// The answer is a header alone, without the question.
        #[serde(default)]
        bare: bool,
    },
    /// Nothing listens on TCP.
    RefuseTcp,
    /// A server's target has additional addresses. May be set for several servers.
    ExtraAddresses {
        /// Whose target.
        server: u64,
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
}

/// The records of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

/// What happens to a query for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressAnswer {
    /// It is answered by SERVFAIL.
    ServFail,
    /// It is dropped.
    Silent,
    /// Over UDP the answer is empty and carries the TC bit.
    Truncate,
}

/// How a server from before EDNS answers a query with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoEdnsCode {
    /// It could not read the query.
    #[default]
    FormErr,
    /// It does not know how to do this.
    NotImp,
}

/// A DNS fault's name, for clearing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is documented at the fault of its name")]
pub enum DnsFaultKind {
    NoSrv,
    NoAddress,
    NoTarget,
    BadTarget,
    ServFail,
    Delay,
    Silent,
    Truncate,
    Addresses,
    NoEdns,
    RefuseTcp,
    ExtraAddresses,
}

/// A member to list in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The server id in the target's name.
    pub id: u64,
    /// Where the record points. Absent: at the server of this id, which is started if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
}

impl From<u64> for Member {
    fn from(id: u64) -> Member {
        Member { id, address: None }
    }
}

/// Why a command was refused. Nothing has changed then; after `Io` a part of it may have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The text is not a command. The hint shows the right form; it is empty where the error already says enough.
    #[error("not a command: {error}{hint}")]
    Syntax {
        /// What the JSON reader said.
        error: serde_json::Error,
        /// The form that the text probably meant.
        hint: String,
    },
    /// No server has this id.
    #[error("no server has the id {id}; there are {known:?}")]
    UnknownServer {
        /// The id asked for.
        id: u64,
        /// The ids that exist.
        known: Vec<u64>,
    },
    /// A parameter is outside its range.
    #[error("drop probability {0} is not between 0 and 1")]
    Probability(f64),
    /// `force_deny_of` matches by nothing, or by a bucket that cannot be read.
    #[error("force_deny_of {0}")]
    Match(String),
    /// A released place is not held, or is named twice.
    #[error("place {place} cannot be released: places 0 to {held} (exclusive) are held, each leaves once")]
    Place {
        /// The place asked for.
        place: usize,
        /// How many answers are held.
        held: usize,
    },
    /// A socket could not be opened or sent to.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}
