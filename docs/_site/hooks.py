"""Hooks of MkDocs: pages made of files outside docs/, links to such files, notebooks, formulas and the API reference.

Nothing here needs a network, and nothing of FATE-DP is imported: the API reference is read from the source text.
"""

import json
import posixpath
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Pages of the site that are files of the repository, and stay where readers of a repository look for them.
PAGES = {
    "index.md": "README.md",
    "index.zh.md": "README.zh.md",
    "operators.md": "deploy/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "benchmarks.md": "bench/README.md",
    "thesis.md": "bench/thesis/README.md",
    "credit_study.md": "examples/credit_risk/README.md",
    "cluster.md": "tests/cluster/README.md",
}
# Pages of the API reference: what each is called, and the modules that it holds, or the folders of all of them.
REFERENCE = {
    "privacy": ("Privacy: events, labels, policy, audit", ["privacy"]),
    "mechanisms": ("Privacy: mechanisms", ["privacy/mechanisms"]),
    "noise": ("Privacy: noise on a grid", ["privacy/noise"]),
    "accounting": ("Privacy: accounting", ["privacy/accounting"]),
    "ledger": ("Privacy: the ledger", ["privacy/ledger"]),
    "crypto": ("Cryptography", ["crypto"]),
    "clients": ("Client classes", ["pipelines/clients/__init__.py"]),
    "jobs": ("Ready pipelines and jobs", ["pipelines/jobs"]),
    "components": ("Components: shared parts", ["components/common", "components/common/wire", "components/protocols"]),
    "attacks": ("Attacks", ["attacks"]),
    "data_prep": ("Preparation of data", ["data_prep"]),
}
PARTS = ("privacy", "crypto", "components", "attacks", "pipelines", "conf", "data_prep", "deploy", "bench")
# Signatures of the client classes are made when they are imported; a page that is read from the source would show none of it.
CLASSES_OF_TASKS = ("    options:", "      merge_init_into_class: false", "      inherited_members: false")
LINK = re.compile(r"(\]\()(<?)([^)<>\s]+)(>?)((?:\s+\"[^\"]*\")?\))")
KEY = re.compile(r"(?<![\]\w`])\[([A-Z][A-Za-z]*\d{4}[a-z]?|PPMLTutorial|BUPTThesis)\](?![(\[:])")
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.M | re.S)


def origin_of(page: str) -> str:
    """The file of the repository that a page of the site is made of."""
    if page in PAGES:
        return PAGES[page]
    return f"docs/{page[:-3]}.ipynb" if is_notebook(page) else f"docs/{page}"


def is_notebook(page: str) -> bool:
    """Whether a page of the site is made of a notebook."""
    return page.startswith("notebooks/") and (ROOT / "docs" / f"{page[:-3]}.ipynb").exists()


def place_of(path: str) -> str | None:
    """Where a file of the repository is found in the site; None if it is none, or a folder."""
    for page, origin in PAGES.items():
        if path == origin:
            return page
    if path.startswith("docs/notebooks/") and path.endswith(".ipynb"):
        return path[len("docs/") : -len(".ipynb")] + ".md"
    if path.startswith("docs/"):
        return path[len("docs/") :]
    return f"files/{path}" if (ROOT / path).is_file() else None


def links_of(text: str, origin: str):
    """The files of the repository that a text links to, as paths from its root, each with its anchor or ''."""
    for match in LINK.finditer(FENCE.sub("", text)):
        target = match[3]
        if "://" in target or target.startswith(("#", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        yield posixpath.normpath(posixpath.join(posixpath.dirname(origin), path)), anchor


def with_site_links(text: str, page: str) -> str:
    """The text of a page with links as the site has them, and with keys of references as links."""
    origin = origin_of(page)

    def moved(match):
        target = match[3]
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, mark, anchor = target.partition("#")
        place = place_of(posixpath.normpath(posixpath.join(posixpath.dirname(origin), path)))
        if place is None:
            return match[0]
        return f"{match[1]}{posixpath.relpath(place, posixpath.dirname(page) or '.')}{mark}{anchor}{match[5]}"

    def cited(match):
        if page == "references.md":
            return match[0]
        place = posixpath.relpath("references.md", posixpath.dirname(page) or ".")
        return f"[\\[{match[1]}\\]]({place}#{match[1].lower()})"

    kept = []
    outside = FENCE.sub(lambda fence: kept.append(fence[0]) or f"\0{len(kept) - 1}\0", text)
    # A figure and its error stay on one line.
    outside = re.sub(r"(?<=\d) ([±]) (?=\d)", "\u00a0\\1\u00a0", outside)
    return re.sub(r"\0(\d+)\0", lambda number: kept[int(number[1])], KEY.sub(cited, LINK.sub(moved, outside)))


def notebook_page(path: Path, pictures: dict) -> str:
    """A notebook as Markdown; ``pictures`` receives the bytes of its pictures by name.

    The committed notebooks have no outputs. `make docs-notebooks` leaves copies with outputs in out/notebooks/, which are
    taken if they are of the same cells.
    """
    book = json.loads(path.read_text(encoding="utf-8"))
    run = ROOT / "out" / "notebooks" / path.name
    if run.exists():
        ran = json.loads(run.read_text(encoding="utf-8"))
        if [cell["source"] for cell in ran["cells"]] == [cell["source"] for cell in book["cells"]]:
            book = ran
    parts = []
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            parts += [_shown(output, path.stem, pictures) for output in _joined(cell["outputs"])]
    head, _, rest = "\n\n".join(part for part in parts if part).partition("\n")
    return f"{head}\n\n[Download this notebook](../files/docs/notebooks/{path.name})\n{rest}\n"


def _joined(outputs) -> list:
    """The outputs of a cell, with what was printed in several goes as one."""
    joined = []
    for output in outputs:
        if joined and output["output_type"] == joined[-1]["output_type"] == "stream":
            joined[-1] = {**output, "text": [*joined[-1]["text"], *output["text"]]}
        else:
            joined.append(output)
    return joined


def _shown(output, stem, pictures) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output.get("data", {})
    if "image/png" in data:
        import base64

        name = f"{stem}-{len(pictures)}.png"
        pictures[name] = base64.b64decode("".join(data["image/png"]))
        return f"![A picture drawn by the cell above]({name})"
    if "text/plain" in data:
        return f"```text\n{''.join(data['text/plain'])}\n```"
    return ""


def reference_page(title: str, folders: list) -> str:
    """A page of the API reference: every module of the folders, in the order of its name."""
    lines = [f"# {title}", ""]
    if "pipelines/clients/__init__.py" in folders:
        lines += [
            "Each class takes the [parameters](../parameters.md) of its component by name, and the tasks' inputs.",
            "",
        ]
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.py")) or [ROOT / folder]:
            if path.name == "__init__.py" and len(path.read_text(encoding="utf-8").splitlines()) < 3:
                continue
            module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            lines += [f"::: fate_dp.{module}", *(CLASSES_OF_TASKS if "clients" in folder else ()), ""]
    return "\n".join(lines)


def reference_index() -> str:
    """The first page of the API reference."""
    lines = [
        "# API reference",
        "",
        "Made from the docstrings of the code. What most users need is in the client classes and in the mechanisms,",
        "accounting and ledger of `fate_dp.privacy`; the rest is for those who change FATE-DP.",
        "",
    ]
    lines += [f"- [{title}]({name}.md): {_folders(folders)}" for name, (title, folders) in REFERENCE.items()]
    return "\n".join(lines) + "\n"


def _folders(folders) -> str:
    return ", ".join(f"`fate_dp.{folder.removesuffix('/__init__.py').replace('/', '.')}`" for folder in folders)


def formula(source, language, css_class, options, md, **kwargs) -> str:
    """A formula in LaTeX as MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert

    return f'<div class="formula">{convert(source.strip(), display="block")}</div>'


def on_startup(command, dirty):
    """Lay out the package for the API reference, before the plugin looks for it."""
    package = ROOT / "out" / "docs" / "fate_dp"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Differential privacy for FATE."""\n', encoding="utf-8")
    for part in PARTS:
        (package / part).symlink_to(ROOT / part)


def on_config(config):
    """Tell the Markdown processor how formulas are drawn."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    if not any(fence["name"] == "math" for fence in fences):
        fences.append({"name": "math", "class": "math", "format": formula})
    return config


def on_files(files, config):
    """Add the pages and files that lie outside docs/ or are made here."""
    from mkdocs.structure.files import File

    for page, origin in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / origin).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        pictures = {}
        page = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, page, content=notebook_page(path, pictures)))
        files.append(File.generated(config, f"files/docs/notebooks/{path.name}", abs_src_path=str(path)))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    files.append(File.generated(config, "reference/index.md", content=reference_index()))
    for name, (title, folders) in REFERENCE.items():
        files.append(File.generated(config, f"reference/{name}.md", content=reference_page(title, folders)))
    for file in list(files.documentation_pages()):
        if file.src_uri.startswith("reference/"):
            continue
        for path, _ in links_of(file.content_string, origin_of(file.src_uri)):
            place = place_of(path)
            if place and place.startswith("files/") and files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links where the site has their targets."""
    uri = page.file.src_uri
    if uri.startswith("reference/") or is_notebook(uri):
        return markdown
    return with_site_links(markdown, uri)
