//! Finds a browser, shows it a page, and takes what the page reports.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tiny_http::{Header, Method, Response, Server};

const PROBE: &str = include_str!("probe.js");
const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "firefox",
];
/// A browser that starts on a busy machine may take its time.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    program: PathBuf,
}

impl Browser {
    /// A browser of this machine. Without one the test is skipped, loudly;
    /// with `CI=true` that is a failure.
    pub(crate) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = NAMES.iter().find_map(|name| {
            std::env::split_paths(&path)
                .map(|folder| folder.join(name))
                .find(|program| program.is_file())
        });
        if found.is_none() {
            let missing = format!("no browser found: one of {} is needed", NAMES.join(", "));
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
            eprintln!("skipped: {missing}");
        }
        found.map(|program| Self { program })
    }

    pub(crate) fn is_chromium(&self) -> bool {
        !self.program.ends_with("firefox")
    }

    /// A command without a window, with nothing of the user's.
    fn command(&self, profile: &Path) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_chromium() {
            // No sandbox: it cannot be had by root, and the page is ours.
            command.args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--window-size=1400,1000",
            ]);
            command.arg(format!("--user-data-dir={}", profile.display()));
        } else {
            command.args(["--headless", "--no-remote", "--profile"]);
            command.arg(profile);
        }
        command
    }

    /// Opens `page` with the probe in it, and gives what the probe posts.
    pub(crate) fn probe(&self, page: &str) -> Value {
        let server = Server::http("127.0.0.1:0").unwrap();
        let address = server.server_addr();
        let profile = TempDir::new().unwrap();
        let mut command = self.command(profile.path());
        command.arg(format!("http://{address}/"));
        let _running = Running(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let page = with_probe(page);
        let deadline = Instant::now() + PATIENCE;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let Some(mut request) = server.recv_timeout(left).unwrap() else {
                break;
            };
            match (request.method(), request.url()) {
                (Method::Get, "/") => {
                    let html = Header::from_bytes("Content-Type", "text/html; charset=utf-8");
                    let response = Response::from_string(&page).with_header(html.unwrap());
                    request.respond(response).unwrap();
                }
                (Method::Post, "/result") => {
                    let mut body = String::new();
                    request.as_reader().read_to_string(&mut body).unwrap();
                    request.respond(Response::empty(204)).unwrap();
                    return serde_json::from_str(&body).unwrap();
                }
                (_, url) => panic!("the page asked for {url}"),
            }
        }
        panic!("{}: the page reported nothing", self.program.display());
    }

    /// Opens `page` as it is from a file: the document as it stands then, and
    /// what the browser wrote of it to its log. Chromium only.
    pub(crate) fn dump(&self, page: &str) -> (String, Vec<String>) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("report.html");
        std::fs::write(&file, page).unwrap();
        let output = self
            .command(&folder.path().join("profile"))
            .args(["--enable-logging=stderr", "--dump-dom"])
            .arg(format!("file://{}", file.display()))
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr)
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .map(str::to_owned)
            .collect();
        (String::from_utf8(output.stdout).unwrap(), log)
    }
}

/// The page with the probe as its first script, admitted by the policy.
fn with_probe(page: &str) -> String {
    let hash = STANDARD.encode(Sha256::digest(PROBE));
    let with_policy = page.replacen(
        "script-src ",
        &format!("connect-src 'self'; script-src 'sha256-{hash}' "),
        1,
    );
    let (head, rest) = with_policy.split_once("<style>").unwrap();
    format!("{head}<script>{PROBE}</script><style>{rest}")
}

/// Ends the browser, however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
