"""Programs that the tests run inside an image. They print JSON and use the standard library alone."""

# Shared objects and programs that do not find a library they name, without the driver's own two. A library that lies
# beside the file is found: a wheel's private libraries are loaded by its modules, which know the folder.
UNRESOLVED = """
import concurrent.futures, json, os, subprocess
def elf(path):
    try:
        with open(path, "rb") as file: return file.read(4) == b"\\x7fELF"
    except OSError: return False
def files():
    for root in ("/usr", "/opt", "/etc", "/app", "/home"):
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path) and elf(path): yield path
def missing(path):
    text = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    lost = {line.split()[0] for line in text.splitlines() if "not found" in line}
    lost -= {"libcuda.so.1", "libnvidia-ml.so.1", *os.listdir(os.path.dirname(path))}
    return [f"{path} needs {name}" for name in sorted(lost)]
paths = list(files())
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    found = [line for lines in pool.map(missing, paths) for line in lines]
print(json.dumps({"files": len(paths), "missing": found}))
"""

# Where each NVIDIA library with a number lies; links are followed.
SONAMES = """
import json, os, re
found = {}
for root in ("/usr", "/opt"):
    for folder, _, names in os.walk(root):
        for name in names:
            match = re.match(r"(lib(?:cu|nv|nccl|cudnn|cublas)\\w*\\.so\\.\\d+)", name)
            if match: found.setdefault(match[1], set()).add(os.path.realpath(os.path.join(folder, name)))
print(json.dumps({name: sorted(paths) for name, paths in found.items()}))
"""

# The CUDA libraries that importing the framework maps, after decoys of all of them were put first in LD_LIBRARY_PATH.
DECOYS = """
import json, os, pathlib, subprocess, sys
site = next(pathlib.Path("/opt/env/lib").glob("python3*/site-packages"))
decoys = pathlib.Path("/tmp/decoys"); decoys.mkdir()
for library in site.glob("nvidia/**/*.so*"):
    (decoys / library.name).write_bytes(b"not a library")
code = f"import {sys.argv[1]}; print(open('/proc/self/maps').read())"
run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
    env=os.environ | {"LD_LIBRARY_PATH": f"{decoys}:{os.environ['LD_LIBRARY_PATH']}"})
maps = {line.split()[-1] for line in run.stdout.splitlines() if ".so" in line}
names = {library.name for library in site.glob("nvidia/**/*.so*")}
print(json.dumps({"code": run.returncode, "error": run.stderr[-600:],
    "mapped": sorted(path for path in maps if os.path.basename(path) in names)}))
"""

# Files that should not be in an image: compilers, caches, keys, programs that change the user.
SURPRISES = """
import json, os, pwd, shutil, stat
tools = ("gcc", "cc", "g++", "clang", "nvcc", "make", "ld", "as", "pip", "pip3", "git", "curl")
found = [f"program {name}" for name in tools if shutil.which(name)]
for folder, _, names in os.walk("/"):
    if folder.startswith(("/proc", "/sys", "/dev")): continue
    for name in names:
        path = os.path.join(folder, name)
        try: mode = os.lstat(path).st_mode
        except OSError: continue
        if stat.S_ISREG(mode) and mode & 0o002: found.append(f"anybody can write {path}")
        if path.startswith("/opt/base/") and stat.S_IMODE(mode) not in (0o644, 0o755): found.append(f"mode of {path}")
        if stat.S_ISREG(mode) and mode & 0o6000: found.append(f"setuid or setgid {path}")
        if name in (".netrc", ".pypirc", "id_rsa", "pip.conf", ".git-credentials") or name.endswith(".key"):
            found.append(f"secret {path}")
homes = [entry.pw_dir for entry in pwd.getpwall()]
caches = (*(f"{home}/.cache" for home in homes), "/var/lib/apt/lists", "/var/cache/apt/archives")
for folder in (*caches, "/build", "/tmp"):
    for root, _, names in os.walk(folder):
        found += [f"left over {os.path.join(root, name)}" for name in names if name != "lock"]
print(json.dumps(found))
"""
