//! The steps, in their order. Each says what it is about when it has passed. A step that fails panics with what it saw.

use crate::chroot::{Chroot, DEVSERVER, MODULE};
use crate::contents;
use crate::site::{CONFIGURATION, NARROW, PORT, Site, WIDE};
use crate::watch::Watch;
use ratelimitly_harness::http::{get, try_get};
use ratelimitly_harness::{eventually, eventually_some, process};
use std::time::Duration;

const FILE: &str = "/usr/lib/nginx/modules/ngx_http_ratelimitly_module.so";
const LINK: &str = "/etc/nginx/modules-enabled/50-mod-http-ratelimitly.conf";
/// Longest wait for nginx to do what a signal asks.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs all; gives their number.
pub async fn all(chroot: &Chroot) -> usize {
    let older = older_version(chroot);
    install(chroot, &older).await;
    passed("an installation beside a running nginx loads the module and fails no request");
    depends(chroot);
    passed("the package depends on the nginx that it was built for");
    let site = Site::set_up(chroot);
    admit(chroot).await;
    passed("after a reload the packaged development server allows and denies");
    upgrade(chroot).await;
    passed("an upgrade fails no request");
    contents::all(chroot, FILE);
    passed("checksums, licences, bill of materials and debug symbols are those of the files");
    take_over(chroot).await;
    passed("a second master takes over with the new file and fails no request");
    go_back(chroot, &older).await;
    passed("the older package comes back and fails no request");
    remove(chroot).await;
    drop(site);
    passed("a removal leaves an nginx that serves");
    purge(chroot);
    passed("a purge leaves no file");
    chroot.run(&["invoke-rc.d", "nginx", "stop"]);
    9
}

fn passed(what: &str) {
    println!("ok: {what}");
}

/// The same package with a version that any other is newer than.
fn older_version(chroot: &Chroot) -> String {
    let (folder, file) = ("/srv/older", "/srv/older.deb");
    chroot.run(&["dpkg-deb", "--raw-extract", &chroot.file(MODULE), folder]);
    let control = format!("{folder}/DEBIAN/control");
    let version = |line: &str| {
        if line.starts_with("Version: ") { "Version: 0.0.1".to_owned() } else { line.to_owned() }
    };
    let text: Vec<String> = chroot.read(&control).lines().map(version).collect();
    std::fs::write(chroot.path(&control), text.join("\n") + "\n").expect("it can be written");
    chroot.run(&["dpkg-deb", "--build", "--root-owner-group", folder, file]);
    file.to_owned()
}

async fn install(chroot: &Chroot, older: &str) {
    chroot.install(&["nginx"]);
    eventually_some(PATIENCE, "nginx runs", async || try_get(80, "/").await.ok()).await;
    let watch = Watch::start(80, "/");
    chroot.install(&[older, &chroot.file(DEVSERVER)]);
    assert_eq!(chroot.field(MODULE, "Version"), "0.0.1");
    assert!(chroot.path(LINK).is_symlink(), "{LINK} is no link");
    chroot.run(&["nginx", "-t"]);
    let loaded = || maps(chroot.master()).contains(FILE);
    eventually(PATIENCE, "nginx has loaded the module", loaded).await;
    println!("    {} requests had 200 meanwhile", watch.none_failed().await);
}

/// apt holds back an nginx that does not provide the same ABI.
fn depends(chroot: &Chroot) {
    let needed = chroot.field(MODULE, "Depends");
    let abi = needed.split(", ").find(|name| name.starts_with("nginx-abi-"));
    let abi = abi.unwrap_or_else(|| panic!("no nginx-abi- among {needed}"));
    let nginx = chroot.run(&["dpkg-query", "-W", "-f", "${Package} ${Provides}\n", "nginx*"]);
    assert!(nginx.contains(abi), "no nginx provides {abi}: {nginx}");
}

async fn admit(chroot: &Chroot) {
    chroot.run(&["nginx", "-t"]);
    chroot.run(&["invoke-rc.d", "nginx", "reload"]);
    eventually_some(PATIENCE, "the new configuration serves", async || {
        try_get(PORT, WIDE).await.ok().filter(|response| response.status == 200)
    })
    .await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(get(PORT, NARROW).await.status);
    }
    assert_eq!(seen, [200, 200, 429]);
    let log = || chroot.read("/var/log/nginx/admission.log");
    eventually(PATIENCE, "the access log has the verdicts", || log().contains("429 verdict=deny")).await;
    assert!(log().contains(&format!("GET {NARROW} HTTP/1.1 200 verdict=allow")), "{}", log());
}

async fn upgrade(chroot: &Chroot) {
    let file = chroot.file(MODULE);
    let watch = Watch::start(PORT, WIDE);
    chroot.install(&[&file]);
    assert_ne!(chroot.field(MODULE, "Version"), "0.0.1");
    assert!(chroot.path(LINK).is_symlink(), "{LINK} is no link");
    let served = watch.none_failed().await;
    println!("    {served} requests had 200 meanwhile");
    // dpkg made nginx reload, which goes on with the code that it has loaded (docs/install.md).
    assert!(maps(chroot.master()).contains(&format!("{FILE} (deleted)")), "nginx has the new file already");
}

/// What docs/install.md tells an operator to do after an upgrade.
async fn take_over(chroot: &Chroot) {
    let watch = Watch::start(PORT, WIDE);
    second_master(chroot).await;
    println!("    {} requests had 200 meanwhile", watch.none_failed().await);
}

/// Its way back: the package of before, and a second master again.
async fn go_back(chroot: &Chroot, older: &str) {
    let watch = Watch::start(PORT, WIDE);
    chroot.run(&["apt-get", "install", "-y", "--allow-downgrades", older]);
    assert_eq!(chroot.field(MODULE, "Version"), "0.0.1");
    second_master(chroot).await;
    println!("    {} requests had 200 meanwhile", watch.none_failed().await);
}

/// Ends with the module's installed file in use.
async fn second_master(chroot: &Chroot) {
    let old = chroot.master();
    chroot.run(&["sh", "-c", "kill -USR2 $(cat /run/nginx.pid)"]);
    let new =
        || chroot.path("/run/nginx.pid").exists() && chroot.read("/run/nginx.pid").trim() != old.to_string();
    eventually(PATIENCE, "a second master has written its process id", new).await;
    let master = chroot.master();
    eventually(PATIENCE, "the second master has workers", || !process::children(master).is_empty()).await;
    chroot.run(&["sh", "-c", "kill -QUIT $(cat /run/nginx.pid.oldbin)"]);
    eventually(PATIENCE, "the first master exits", || !process::is_running(old)).await;
    let loaded = maps(master);
    assert!(
        loaded.contains(FILE) && !loaded.contains(&format!("{FILE} (deleted)")),
        "not the file that is installed: {loaded}"
    );
}

async fn remove(chroot: &Chroot) {
    std::fs::remove_file(chroot.path(CONFIGURATION)).expect("it is there");
    chroot.run(&["invoke-rc.d", "nginx", "reload"]);
    chroot.run(&["apt-get", "remove", "-y", MODULE]);
    assert!(!chroot.path(FILE).exists() && !chroot.path(LINK).is_symlink(), "the module is still there");
    chroot.run(&["nginx", "-t"]);
    eventually_some(PATIENCE, "nginx serves", async || try_get(80, "/").await.ok()).await;
}

fn purge(chroot: &Chroot) {
    chroot.run(&["apt-get", "purge", "-y", MODULE, DEVSERVER]);
    let left = chroot.named("ratelimitly");
    assert!(left.is_empty(), "left after the purge: {left:?}");
}

/// The files that a process has mapped, as the kernel names them.
fn maps(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .unwrap_or_else(|error| panic!("process {pid}: {error}"))
}
