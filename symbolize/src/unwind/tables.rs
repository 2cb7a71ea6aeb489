//! The unwind tables of every module, each built when it is first needed.

use super::{
    arch::Arch,
    rule::{Base, Rule},
    table::{Addresses, DescriptionOffset, Kind, Table},
};
use crate::{
    names::{sections::Sections, symbols},
    segments,
};
use memtrack_artifact::{Artifact, DebugFileKind, Module, ModuleId, Svma};
use std::sync::OnceLock;

/// Tables by module, shared by all workers.
pub(crate) struct Tables<'a> {
    artifact: &'a Artifact,
    arch: Arch,
    modules: Vec<ModuleTables>,
}

#[derive(Default)]
struct ModuleTables {
    eh_frame: OnceLock<Option<Table>>,
    debug_frame: OnceLock<Option<Table>>,
    trampolines: OnceLock<Vec<(Svma, Svma)>>,
}

impl<'a> Tables<'a> {
    /// Nothing is read yet.
    pub(crate) fn new(artifact: &'a Artifact, arch: Arch) -> Self {
        Self {
            artifact,
            arch,
            modules: artifact
                .modules()
                .iter()
                .map(|_| ModuleTables::default())
                .collect(),
        }
    }

    /// The compact rule at an address: that of `.eh_frame`, or, where that
    /// rules nothing, of `.debug_frame`.
    pub(crate) fn rule(&self, module: ModuleId, address: Svma) -> Rule {
        let rule = self
            .eh_frame(module)
            .map_or(Rule::NONE, |table| table.rule(address));
        if rule.base() != Base::None {
            return rule;
        }
        self.debug_frame(module)
            .map_or(Rule::NONE, |table| table.rule(address))
    }

    /// The frame description of an address.
    pub(crate) fn description(
        &self,
        module: ModuleId,
        address: Svma,
    ) -> Option<(&Table, DescriptionOffset)> {
        let of = |table: Option<&'_ Table>| -> Option<DescriptionOffset> {
            table.and_then(|table| table.description(address))
        };
        let eh_frame = self.eh_frame(module);
        if let Some(description) = of(eh_frame) {
            return Some((eh_frame?, description));
        }
        let debug_frame = self.debug_frame(module);
        let description = of(debug_frame)?;
        Some((debug_frame?, description))
    }

    /// Whether an address is in a sigreturn trampoline, judged by its symbol:
    /// some C libraries give it no frame description.
    pub(crate) fn is_trampoline(&self, module: ModuleId, address: Svma) -> bool {
        let Some(tables) = self.modules.get(module.index()) else {
            return false;
        };
        tables
            .trampolines
            .get_or_init(|| {
                let Some(module) = self.module(module) else {
                    return Vec::new();
                };
                symbols::signal_trampolines(&self.files(module))
            })
            .iter()
            .any(|(start, end)| (*start..*end).contains(&address))
    }

    /// What was wrong with a module's unwind information, as far as it was
    /// read.
    pub(crate) fn notes(&self, module: ModuleId) -> Vec<String> {
        let Some(tables) = self.modules.get(module.index()) else {
            return Vec::new();
        };
        if let Some(module) = self.module(module)
            && module.machine != self.arch.machine
        {
            return vec![format!(
                "code for another architecture (e_machine {}) than the recorded one: not unwound",
                module.machine
            )];
        }
        let without = |table: &OnceLock<Option<Table>>| matches!(table.get(), Some(None));
        if without(&tables.eh_frame) && without(&tables.debug_frame) {
            return vec![
                "no unwind information (.eh_frame, .debug_frame): stacks end where they enter it"
                    .to_owned(),
            ];
        }
        [
            (".eh_frame", tables.eh_frame.get()),
            (".debug_frame", tables.debug_frame.get()),
        ]
        .into_iter()
        .filter_map(|(name, table)| {
            let note = table?.as_ref()?.note.as_ref()?;
            Some(format!("{name}: {note}; stacks through it can end early"))
        })
        .collect()
    }

    /// Rows of a module's `.eh_frame`.
    pub(crate) fn row_count(&self, module: ModuleId) -> usize {
        self.eh_frame(module).map_or(0, Table::row_count)
    }

    fn module(&self, id: ModuleId) -> Option<&'a Module> {
        self.artifact.modules().get(id.index())
    }

    /// The module and its separate debug file, which may be empty.
    fn files(&self, module: &'a Module) -> [Sections<'a>; 2] {
        [
            Sections::new(self.artifact, module),
            Sections::of_debug_file(self.artifact, module, DebugFileKind::Separate),
        ]
    }

    fn eh_frame(&self, id: ModuleId) -> Option<&Table> {
        self.modules
            .get(id.index())?
            .eh_frame
            .get_or_init(|| self.build(id, Kind::EhFrame, ".eh_frame"))
            .as_ref()
    }

    fn debug_frame(&self, id: ModuleId) -> Option<&Table> {
        self.modules
            .get(id.index())?
            .debug_frame
            .get_or_init(|| self.build(id, Kind::DebugFrame, ".debug_frame"))
            .as_ref()
    }

    fn build(&self, id: ModuleId, kind: Kind, name: &str) -> Option<Table> {
        let module = self.module(id)?;
        // A 32-bit program on a 64-bit kernel: its tables and registers are
        // others.
        if module.machine != self.arch.machine {
            return None;
        }
        // .debug_frame is split off with the rest of debug information.
        let [own, separate] = self.files(module);
        let older = name.replacen(".debug", ".zdebug", 1);
        let has = |file: &Sections<'_>| file.info(name).is_some() || file.info(&older).is_some();
        let sections = if has(&own) { own } else { separate };
        let address = |name| sections.info(name).map(|info| info.address);
        let bytes = match sections.load(name) {
            Ok(bytes) => bytes?.into_owned(),
            Err(note) => return Some(Table::unreadable(kind, self.arch, note)),
        };
        let addresses = Addresses {
            section: address(name).unwrap_or_default(),
            text: own.info(".text").map(|info| info.address),
            got: own.info(".got").map(|info| info.address),
        };
        Some(Table::build(kind, bytes, addresses, self.arch, |code| {
            segments::is_executable(module, code)
        }))
    }
}
