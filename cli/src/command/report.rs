//! `memtrack report`: findings in one or several forms.

use crate::{
    args,
    exit::Exit,
    load,
    output::{self, Output},
    progress::Bar,
};
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
    check_targets(args, &path)?;
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

/// Refuses to write over the artifact, or two formats into one file.
fn check_targets(args: &args::Report, artifact: &Path) -> Result<()> {
    let mut taken = vec![(output::place_of(artifact), "the artifact".to_owned())];
    for (name, target) in asked(args) {
        let Some(Some(path)) = target else { continue };
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            continue;
        }
        let place = output::place_of(path);
        if let Some((_, other)) = taken.iter().find(|(taken, _)| *taken == place) {
            bail!("--{name}={}: this file is {other}", path.display());
        }
        taken.push((place, format!("the target of --{name}")));
    }
    Ok(())
}

/// The formats in the order in which they are written, and where to.
fn asked(args: &args::Report) -> [(&'static str, &Option<Option<PathBuf>>); 5] {
    [
        ("text", &args.text),
        ("html", &args.html),
        ("json", &args.json),
        ("folded", &args.folded),
        ("svg", &args.svg),
    ]
}

/// Opens every output before the work starts.
fn open_outputs(args: &args::Report) -> Result<Vec<(&'static str, Output)>> {
    let mut outputs = Vec::new();
    let mut to_stdout = Vec::new();
    for (name, target) in asked(args) {
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
