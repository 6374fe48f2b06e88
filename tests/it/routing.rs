//! Where a request goes inside nginx, and its one admission beside that: what comes before, internal redirects, error
//! pages, subrequests and upstream retries. Each test is named after its row of the conformance checklist, where it
//! has one. What is asked and how it is judged is the subject of `admission.rs`.

use bytes::Bytes;
use ratelimitly_harness::http::{Request, Response};
use ratelimitly_harness::{Dev, Nginx, http};

mod before;
mod behind;
mod content;
mod error_pages;
mod limits;
mod redirects;
mod refused;
mod surprises;

/// An nginx whose worker knows the servers, with these files below its `html` folder.
async fn warm(text: &str, dev: &Dev, fail: &str, files: &[(&str, &str)]) -> Nginx {
    let nginx = Nginx::builder(text).dev(dev).set("fail", fail).start().await;
    write(&nginx, files);
    nginx.admits().await;
    nginx
}

fn write(nginx: &Nginx, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = nginx.prefix().join("html").join(name);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder for the file");
        std::fs::write(path, text).expect("a file to serve");
    }
}

/// A request with one header more.
async fn get_with(nginx: &Nginx, path: &str, (name, value): (&str, &str)) -> Response {
    let request = Request::get(path).header("connection", "close").header(name, value);
    let request = request.body(Bytes::new()).expect("a request");
    http::send(nginx.port(), request).await.expect("a response")
}

/// The labels of the test's admissions, by which tests tell who asked.
fn labels(dev: &Dev) -> Vec<String> {
    dev.admissions().iter().map(|event| event.label_text().to_owned()).collect()
}

/// Waits until everything that the worker has sent so far has arrived.
async fn settled(dev: &Dev, nginx: &Nginx) {
    dev.reset().await.expect("the server answers again");
    nginx.admits().await;
}
