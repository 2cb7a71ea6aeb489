//! `memtrack report`: findings in one or several forms.

use crate::{args, exit::Exit, load, output::Output, progress::Bar};
use anyhow::{Context, Result, bail};
use memtrack_artifact::Artifact;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &args::Report) -> Result<Exit> {
    let path = match &args.artifact {
        Some(path) => path.clone(),
        None => {
            let path = load::newest_artifact()?;
            eprintln!("memtrack: reporting on {}", path.display());
            path
        }
    };
    let artifact = Artifact::open(&path)?;
    let outputs = open_outputs(args)?;
    let bar = Bar::default();
    let symbols = load::symbols(&artifact, &path, &bar)?;
    let findings = memtrack_analyze::analyze(
        &artifact,
        &symbols,
        &memtrack_analyze::Options {
            detail: args.detail,
            ..Default::default()
        },
        &bar,
    )
    .with_context(|| format!("{}: cannot be analysed", path.display()))?;
    super::say_incomplete(&path, &findings.verdict);
    let options = memtrack_report::Options {
        measure: args.measure.into(),
        top: args.top,
        ..Default::default()
    };
    for (name, mut out) in outputs {
        let report = memtrack_report::format(name)
            .with_context(|| format!("there is no report format '{name}'"))?;
        let target = out.path().map(Path::to_owned);
        report
            .write(&findings, &options, &mut out)
            .and_then(|()| out.finish())
            .with_context(|| match &target {
                Some(target) => format!("{}: cannot be written", target.display()),
                None => "standard output cannot be written".to_owned(),
            })?;
        if let Some(target) = target {
            eprintln!("memtrack: wrote {}", target.display());
        }
    }
    Ok(if args.require_complete && !findings.verdict.complete {
        Exit::Incomplete
    } else {
        Exit::Success
    })
}

/// Opens every output before the work starts.
fn open_outputs(args: &args::Report) -> Result<Vec<(&'static str, Output)>> {
    let asked = [
        ("text", &args.text),
        ("html", &args.html),
        ("json", &args.json),
        ("folded", &args.folded),
        ("svg", &args.svg),
    ];
    let mut outputs = Vec::new();
    let mut to_stdout = Vec::new();
    for (name, target) in asked {
        let Some(target) = target else { continue };
        let target = match target {
            Some(path) => Some(path.clone()),
            None if name == "html" => Some(PathBuf::from("report.html")),
            None => None,
        };
        outputs.push((
            name,
            match target {
                Some(path) => Output::create(&path)?,
                None => {
                    to_stdout.push(name);
                    Output::stdout()
                }
            },
        ));
    }
    if let [first, second, ..] = to_stdout[..] {
        bail!(
            "--{first} and --{second} cannot both go to standard output; \
             give a file: --{second}=FILE"
        );
    }
    if outputs.is_empty() {
        outputs.push(("text", Output::stdout()));
    }
    Ok(outputs)
}
