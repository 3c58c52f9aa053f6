"""test_rollout_deploy.py - deploy/rollout/*.yaml: what they promise, that every setting in them exists and is valid, and that
lake starts with the very arguments and environment of a pod."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml

import lake # first: it says where the next one is
import s3_support

DEPLOY = lake.ROOT / "deploy/rollout"
OBJECTS = [o for path in sorted(DEPLOY.glob("*.yaml")) for o in yaml.safe_load_all(path.read_text())]
CONFIG = (lake.ROOT / "src/base/config.def").read_text()


def find(kind, name):
    found = [o for o in OBJECTS if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, (kind, name)
    return found[0]["spec"]


POD = find("StatefulSet", "rollout")["template"]["spec"]
CONTAINER = POD["containers"][0]
ENVIRONMENT = {e["name"]: e for e in CONTAINER["env"]}


def test_it_is_a_stateful_set_that_keeps_nothing_in_its_pods():
    spec = find("StatefulSet", "rollout")
    assert spec["serviceName"] == "rollout-headless" and spec["replicas"] > 1
    assert "volumeClaimTemplates" not in spec and {tuple(sorted(v.keys())) for v in POD["volumes"]} == {("emptyDir", "name")}
    assert [m["mountPath"] for m in CONTAINER["volumeMounts"]] == ["/tmp"] and CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    data_dir = CONTAINER["args"][CONTAINER["args"].index("--data-dir") + 1]
    assert data_dir.startswith("s3://"), "one bucket for all pods"
    assert ENVIRONMENT["INSTANCE_ID"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert POD["enableServiceLinks"] is False


def test_services():
    labels = find("StatefulSet", "rollout")["template"]["metadata"]["labels"].items()
    headless, front = find("Service", "rollout-headless"), find("Service", "rollout")
    assert headless["clusterIP"] == "None" and front.get("clusterIP") is None
    assert front.get("sessionAffinity", "None") == "None"
    for service in (headless, front):
        assert service["selector"].items() <= labels and [p["port"] for p in service["ports"]] == [3000]
        assert {p["targetPort"] for p in service["ports"]} == {CONTAINER["ports"][0]["name"]}
    assert CONTAINER["ports"][0]["containerPort"] == 3000
    assert CONTAINER["args"][CONTAINER["args"].index("--port") + 1] == "3000"


def test_probes_and_time_to_drain():
    paths = {probe: CONTAINER[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"startupProbe": "/api/v1/health", "readinessProbe": "/api/v1/ready", "livenessProbe": "/api/v1/health"}
    assert {CONTAINER[probe]["httpGet"]["port"] for probe in paths} == {"http"}
    drain = int(re.search(r'"ROLLOUT_DRAIN_SECS",\s+(\d+)', CONFIG).group(1))
    assert POD["terminationGracePeriodSeconds"] > drain + 5


def test_every_variable_is_a_setting():
    known = set(re.findall(r'^[NSP]\(\w+,\s+"(\w+)"', CONFIG, re.M))
    assert [name for name in ENVIRONMENT if name not in known] == []
    assert [name for name, e in ENVIRONMENT.items() if "value" in e and not isinstance(e["value"], str)] == []


def test_the_override_for_plain_http_is_explained():
    text = (DEPLOY / "statefulset.yaml").read_text()
    comment = re.search(r"((?:^ *#.*\n)+) *- name: LAKE_ALLOW_INSECURE\n *value: \"1\"", text, re.M).group(1)
    assert "without tokens" in comment and "NetworkPolicy" in comment and "ROLLOUT_AUTH_TOKEN_FILE" in comment


def environment_of(pod, secret):
    """The container's environment as the kubelet would make it; no other variable is there."""
    values = {}
    for name, entry in ENVIRONMENT.items():
        source = entry.get("valueFrom", {})
        if "value" in entry:
            values[name] = entry["value"]
        elif "fieldRef" in source:
            values[name] = pod
        else:
            key = source["secretKeyRef"]["key"]
            assert key in secret or source["secretKeyRef"].get("optional"), f"the secret lacks {key}"
            if key in secret:
                values[name] = secret[key]
    return {"PATH": os.environ["PATH"], "HOSTNAME": pod, **values}


def test_a_pod_starts_with_these_arguments_and_this_environment(tmp_path):
    """In a network of its own where that is allowed, so that port 3000 is free; the bucket is the one of --data-dir."""
    bucket, port = re.match(r"s3://([^/]+)", CONTAINER["args"][CONTAINER["args"].index("--data-dir") + 1]).group(1), 9000
    (tmp_path / "s3" / bucket).mkdir(parents=True)
    secret = {"access-key-id": s3_support.ACCESS, "secret-access-key": s3_support.SECRET, "endpoint": f"http://127.0.0.1:{port}"}
    environment = environment_of("rollout-2", secret)
    checked = subprocess.run([lake.LAKE, *CONTAINER["args"], "--check-config", "--json"], env=environment, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["instance_id"] == "rollout-2"
    without = {name: value for name, value in environment.items() if name != "LAKE_ALLOW_INSECURE"}
    refused = subprocess.run([lake.LAKE, *CONTAINER["args"]], env=without, capture_output=True, timeout=20)
    assert refused.returncode == 2 and b"LAKE_ALLOW_INSECURE=1" in refused.stderr

    assert CONTAINER["command"] == ["lake"]
    (tmp_path / "pod.json").write_text(json.dumps({"argv": [lake.LAKE, *CONTAINER["args"]], "env": environment}))
    if s3_support.GATEWAY.exists():
        store = [s3_support.GATEWAY, "--access", s3_support.ACCESS, "--secret", s3_support.SECRET, "--port", f"127.0.0.1:{port}",
                 "--quiet", "posix", tmp_path / "s3"]
    else:
        store = [s3_support.MOTO, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    network = ["unshare", "-rn"] if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0 else []
    done = subprocess.run([*network, sys.executable, __file__, bucket, str(port), tmp_path / "pod.json", *map(str, store)],
                          capture_output=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    seen = json.loads(done.stdout)
    assert seen["ready"]["instance_id"] == "rollout-2" and seen["ready"]["instance_id_source"] == "INSTANCE_ID"
    assert seen["exit"] == 0 and seen["count"] == 1


def test_the_image_has_what_lake_needs(tmp_path):
    """The libraries that lake names come from packages that the image installs, or are copied; laid out so, it runs."""
    text = (lake.ROOT / "deploy/Dockerfile").read_text()
    packages = set(re.search(r"--no-install-recommends (.*?) && ", text.replace("\\\n", ""), re.S).group(1).split())
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", lake.LAKE], capture_output=True, text=True).stdout)
    places = dict(re.findall(r"^\s*(\S+) => (\S+)", subprocess.run(["ldd", lake.LAKE], capture_output=True, text=True).stdout, re.M))
    copied = re.findall(r"^COPY (\S+) (/usr/local/\S+)$", text, re.M)
    of_the_system = {"libc6", "libc-bin"}
    assert len(needed) > 10 and [name for name, _ in copied][0] == "lake"
    for name in needed:
        if name in dict(copied) or name not in places:
            continue
        paths = {places[name], os.path.realpath(places[name]), os.path.realpath(places[name]).removeprefix("/usr")}
        owners = set()
        for path in paths:
            found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
            owners |= {line.split(":")[0] for line in found.stdout.splitlines()}
        assert owners & (packages | of_the_system), f"{name} is of {owners}, which the image does not install"
    for name, place in copied:
        source = pathlib.Path(lake.LAKE).resolve() if name == "lake" else pathlib.Path(places[name])
        target = tmp_path / place.lstrip("/") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        target.chmod(0o755)
    shown = subprocess.run([tmp_path / "usr/local/bin/lake", "--version"], capture_output=True, text=True, check=True).stdout
    version = shown.split()[-1]
    assert CONTAINER["image"] == f"lake:{version}" and f"-t lake:{version} " in text and 'ENTRYPOINT ["lake"]' in text
    ran = subprocess.run(["ldd", tmp_path / "usr/local/bin/lake"], capture_output=True, text=True).stdout
    assert str(tmp_path) in ran, "the copied library is the one that is used"


def wait_for(url):
    for _ in range(400):
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except urllib.error.HTTPError as error:
            return error.read()
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


def inside(bucket, port, pod, *store):
    """Runs inside the namespace: storage, then the pod's own process; asks what its probes ask, and adds a record."""
    subprocess.run(["ip", "link", "set", "lo", "up"], capture_output=True) # it is up already where this is no namespace
    pod = json.loads(pathlib.Path(pod).read_text())
    storage = subprocess.Popen(store, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(f"http://127.0.0.1:{port}/")
    if "moto.server" in store:
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT", data=b""))
    process = subprocess.Popen(pod["argv"], env=pod["env"])
    try:
        paths = {CONTAINER[p]["httpGet"]["path"] for p in ("startupProbe", "livenessProbe")}
        for path in paths:
            assert wait_for(f"http://127.0.0.1:3000{path}") == b'{"status":"ok"}'
        ready = json.loads(wait_for("http://127.0.0.1:3000" + CONTAINER["readinessProbe"]["httpGet"]["path"]))
        for path, body in (("/rollouts", {"name": "rl"}), ("/rollouts/rl/records", {"records": [{"id": "a", "rollout_id": "r"}]})):
            request = urllib.request.Request("http://127.0.0.1:3000/api/v1" + path, data=json.dumps(body).encode(),
                                             headers={"Content-Type": "application/json"})
            answer = json.loads(urllib.request.urlopen(request, timeout=20).read())
        process.terminate()
        print(json.dumps({"ready": ready, "count": answer["count"], "exit": process.wait(40)}))
    finally:
        process.kill()
        storage.kill()


if __name__ == "__main__":
    inside(*sys.argv[1:])
