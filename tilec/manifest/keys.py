"""Every key of tilec.toml, for the loader and the JSON Schema.

Keys of kernels and cases have files of their own.
"""

from __future__ import annotations

from typing import Any

from tilec.manifest import types, values
from tilec.manifest.case_keys import CHAIN
from tilec.manifest.kernel_keys import KERNEL, OPTIONS
from tilec.manifest.key_shapes import BYTES, HINTS, LINE, PATH, TARGET_LIST
from tilec.manifest.shapes import (
    Either,
    Flag,
    Integer,
    ListOf,
    Number,
    Plain,
    Text,
)
from tilec.manifest.tables import Key, Names, Pairs, Parts, Table
from tilec_runtime.model.jit import JitFallback

EDITION = 1
EMIT = ("bundle", "package", "wheel", "sbom", "provenance", "hub", "fatbin", "cubin", "ptx")
PACKAGE = Table(
    into=types.Package,
    keys=(
        Key(
            "name",
            Text(
                "a package name (letters, digits, . - _ inside)",
                pattern=values.NAME,
                most=values.NAME_LIMIT,
            ),
            "Name of the distribution.",
            required='name = "acme-kernels"',
        ),
        Key(
            "version",
            Text(
                "a version such as 1.2.0 or 2.0rc1", pattern=values.VERSION, most=values.NAME_LIMIT
            ),
            "Version of the distribution.",
        ),
        Key("description", LINE, "One line on what it is."),
        Key(
            "license",
            Text(
                "an SPDX expression such as Apache-2.0",
                pattern=values.LICENCE,
                convert=values.licence,
            ),
            "Licence, as SPDX.",
        ),
        Key(
            "license-files",
            ListOf(PATH, unique=True),
            "Licence files that are shipped in the wheel.",
        ),
        Key(
            "module",
            Text(
                "an importable name",
                pattern=values.IDENTIFIER,
                convert=values.module_name,
                most=values.NAME_LIMIT,
            ),
            "Import name of the generated package; by default the package's name with underscores.",
        ),
    ),
)
TARGETS = Table(
    into=types.Targets,
    keys=(
        Key(
            "default",
            TARGET_LIST,
            "What `tilec build` builds for: sm_NN (cubin), compute_NN (PTX), lto_NN (LTO-IR), tileir; see `tilec targets`.",
        ),
        Key(
            "groups",
            Pairs(names=Names(values.WORD, "a group's name", TARGET_LIST)),
            "Lists of targets by name, for `--targets NAME`.",
        ),
        Key(
            "min-driver",
            Either(
                (
                    Integer(100, 9999, convert=values.driver),
                    Text(
                        "a driver's version such as 580",
                        pattern=values.DRIVER,
                        convert=values.driver,
                    ),
                )
            ),
            "Oldest driver branch that must load what is built; PTX is lowered to an ISA that it reads.",
        ),
        Key(
            "jit-fallback",
            Text(
                "policy",
                choices=tuple(policy.value for policy in JitFallback),
                convert=JitFallback,
            ),
            "Whether GPUs without machine code in the bundle may compile its PTX, LTO-IR and Tile IR when it is loaded; by default not.",
        ),
    ),
)
PROFILE = Table(
    into=types.Profile,
    merged=True,
    keys=(
        Key(
            "inherits",
            Text("a profile's name", pattern=values.WORD),
            "Profile whose values hold where this one says nothing.",
        ),
        Key("opt", Integer(0, 3), "Optimisation level of the compilers."),
        Key("lineinfo", Flag(), "Keep source lines in the code, for profilers."),
        Key(
            "debug",
            Flag(),
            "Make code for a debugger: with variables where the language has them, and not optimized whatever opt says.",
        ),
        Key(
            "bounds",
            Flag(),
            "Check the indices of SIMT Python kernels, and stop a kernel that leaves an array.",
        ),
    ),
)
TOOLCHAIN = Table(
    into=types.Toolchain,
    keys=(
        Key(
            "cuda",
            Text("a version range such as >=13.2,<13.5", pattern=values.RANGE),
            "CUDA toolkits that may be used.",
        ),
        Key(
            "prefer",
            Text("place", choices=("wheels", "system")),
            "Where tools are looked for first: installed wheels, or CUDA_HOME and PATH.",
        ),
        Key("timeout", Number(above=0, most=86400), "Seconds that one compile may take."),
    ),
)
FRONTENDS = Table(
    keys=(
        # `prebuilt` has digests of a kernel's own files, and thus no options for all kernels.
        *(
            Key(
                language,
                Table(keys=() if language == "prebuilt" else keys),
                f"Options of the {language} language.",
            )
            for language, keys in OPTIONS.items()
        ),
    ),
    names=Names(
        values.WORD,
        "a language",
        Table(
            names=Names(
                values.WORD,
                "an option",
                Either(
                    (Plain(), ListOf(Text()), Pairs(names=Names(".+", "a name", Text(empty=True))))
                ),
            )
        ),
        "Options of a language that a plug-in brings.",
    ),
)
OVERRIDE = Table(
    into=types.Override,
    keys=(
        Key(
            "select",
            Text("a glob", convert=values.glob),
            "Glob over job ids such as gemm-*-sm_80.",
            required='select = "gemm-*-sm_80"',
        ),
        Key(
            "hints",
            HINTS,
            "Compiler hints of the jobs that match.",
        ),
        Key("targets", TARGET_LIST, "The only targets that what matches is built for."),
    ),
)
WHEEL = Table(
    into=types.Wheel,
    keys=(
        Key(
            "split",
            Text("way to split", choices=("arch",)),
            'With "arch", machine code is in wheels of its own, one for each compute capability.',
        ),
        Key("max-size", BYTES, "Most that a wheel may weigh."),
    ),
)
OUTPUT = Table(
    into=types.Output,
    keys=(
        Key(
            "dir",
            Text("a path", convert=values.inner_path),
            "Directory of the results, relative to the project.",
        ),
        Key("emit", ListOf(Text("output", choices=EMIT), least=1, unique=True), "What is written."),
        Key(
            "max-size",
            BYTES,
            "Most that the bundle may weigh.",
        ),
        Key(
            "wheel",
            WHEEL,
            "How wheels are made.",
        ),
    ),
)
CACHE = Table(
    into=types.RemoteTable,
    keys=(
        Key(
            "remote",
            Text("a URL such as https://cache.example/tilec", convert=values.remote_url),
            "URL of a remote cache: https://, s3://, gs://, az:// or file://. It gives what tilec.lock pins.",
        ),
        Key(
            "remote-mode",
            Text("mode", choices=("off", "read", "write")),
            "Whether builds read from it, also write to it, or leave it alone; by default they read.",
        ),
    ),
)
MANIFEST = Parts(
    keys=(
        Key(
            "edition",
            Integer(EDITION, EDITION),
            "Version of this format.",
            required="edition = 1 in the first line",
        ),
        Key("package", PACKAGE, "What is built.", required='package.name = "acme-kernels"'),
        Key("targets", TARGETS, "What it is built for."),
        Key(
            "profile",
            Table(names=Names(values.WORD, "a profile's name", PROFILE)),
            "Compile profiles; release and debug are built in.",
        ),
        Key("toolchain", TOOLCHAIN, "Tools that may be used."),
        Key("frontend", FRONTENDS, "Options by language, for all kernels."),
        Key(
            "kernel",
            Parts(
                names=Names(values.IDENTIFIER, "a kernel's name (a Python identifier)", KERNEL),
                least=1,
            ),
            "Kernels by name: each becomes a launcher.",
            required="a table [kernel.NAME] with its source",
        ),
        Key(
            "chain",
            Parts(names=Names(values.IDENTIFIER, "a chain's name (a Python identifier)", CHAIN)),
            "Chains by name: kernels that `tilec run NAME` launches one behind the other over the same arrays.",
        ),
        Key(
            "override",
            ListOf(OVERRIDE),
            "Changes for the jobs whose id matches; the last match wins.",
        ),
        Key("output", OUTPUT, "What is written, and where."),
        Key("cache", CACHE, "A remote cache of compiled images."),
    ),
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12).

    Rules over several values, such as whether an axis exists, are not in it: `tilec check` checks
    them.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tilec.toml",
        "description": f"Manifest of a tilec project, edition {EDITION}.",
        **MANIFEST.schema(),
    }
