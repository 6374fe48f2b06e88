//! Turns an answer into the datagram that leaves, with the faults that spoil it. Called by `server.rs`. Touches no
//! socket and no state.

use crate::command::{Fault, FaultKind};
use crate::faults::Faults;
use crate::keyring::Tenancy;
use crate::limiter::Answer;
use rand::RngExt;
use ratelimitly_core::id::{BucketId, RequestId};
use ratelimitly_core::wire::{EncodeError, ResourceAnswer, Tenant};

/// Steering flag that asks for a new source port, and one that keeps it.
const REBIND: u8 = 0;
const KEEP_PORT: u8 = 1;

/// Seals the answer of `server` to the request that `request` heads.
///
/// # Errors
/// The answer does not fit in a datagram; only the fault `extra_results` makes it that long.
pub(crate) fn seal(
    mut answer: Answer,
    request: &Tenant,
    server: u64,
    now_unix_ms: u64,
    tenancy: &Tenancy,
    faults: &Faults,
) -> Result<Vec<u8>, EncodeError> {
    spoil_entries(&mut answer, faults);
    let tenant = head(request, server, now_unix_ms, faults);
    let auth = if faults.has(FaultKind::WrongAuthentication) { &tenancy.wrong_auth } else { &tenancy.auth };
    let mut datagram = Vec::new();
    // The nonce comes from the system's generator, never from the seeded one: it must not repeat under one key.
    let nonce = rand::rng().random();
    auth.seal_rate_response(&mut datagram, &tenant, &nonce, &answer.guards, &answer.resources)?;
    cut(&mut datagram, faults);
    Ok(datagram)
}

fn head(request: &Tenant, server: u64, now_unix_ms: u64, faults: &Faults) -> Tenant {
    let claimed = |fault: &Fault| if let Fault::WrongServerId { id } = *fault { Some(id) } else { None };
    let request_id = if faults.has(FaultKind::WrongRequestId) {
        RequestId::from_random(rand::rng().random())
    } else {
        request.request_id
    };
    Tenant {
        key_or_server_id: faults.active().iter().find_map(claimed).unwrap_or(server),
        request_id,
        timestamp_ms: now_unix_ms,
        steering_feedback: if faults.has(FaultKind::Rebind) { REBIND } else { KEEP_PORT },
    }
}

fn spoil_entries(answer: &mut Answer, faults: &Faults) {
    if faults.has(FaultKind::EmptyResults) {
        *answer = Answer::default();
    }
    if faults.has(FaultKind::ShortResults) && answer.resources.pop().is_none() {
        answer.guards.pop();
    }
    if faults.has(FaultKind::ExtraResults) {
        let extra =
            ResourceAnswer { bucket: BucketId([0; 16]), window_size_ms: 1000, actual_rate: 0, deficit: 0 };
        answer.resources.push(answer.resources.last().copied().unwrap_or(extra));
    }
}

fn cut(datagram: &mut Vec<u8>, faults: &Faults) {
    let length = |fault: &Fault| if let Fault::Truncated { bytes } = *fault { Some(bytes) } else { None };
    if let Some(bytes) = faults.active().iter().find_map(length) {
        datagram.truncate(bytes.unwrap_or(datagram.len() / 2));
    }
}
