//! `ratelimitly_fault`: which faults fire, and how often. Only builds with the feature `fault-injection` have it.

use ratelimitly_config::arguments::split;
use ratelimitly_config::number::parse_u32;
use ratelimitly_config::text::Excerpt;

use crate::conf::MainConf;
use crate::conf::problem::Problem;
use crate::nginx::conf::Conf;

const USAGE: &str = "ratelimitly_fault <name>[=<count>] ... with the names socket, connection, event, resolver, spawn, \
                     dns_bind, dns_connect, dns_timer, random, rebind, watch, handler_panic, core_panic, receive_panic, \
                     task_panic";

/// The directive; without a count a fault fires as long as the worker lives.
pub fn fault(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    if arguments.is_empty() {
        return Err(Problem::Count { usage: USAGE });
    }
    for argument in arguments {
        let unknown = || Problem::Fault { argument: Excerpt::new(argument), usage: USAGE };
        let (name, count) = match split(argument) {
            Some((name, count)) => (name, Some(parse_u32(count).map_err(|_| unknown())?)),
            None => (argument, None),
        };
        if !main.settings.faults.set(name, count) {
            return Err(unknown());
        }
    }
    Ok(())
}
