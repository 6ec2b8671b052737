#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace fs = std::filesystem;

namespace {

/// Whether `body` returns within 5 seconds, in a child process.
template <class Body>
bool returns_in_time(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(5);  // its signal ends the process
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status);
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

/// The first entry of a folder with the mark of temporary names; "" when there is none.
std::string temporary_in(const std::string& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (contains(entry.path().filename().string(), io::temporary_mark)) return entry.path().string();
  return "";
}

/// Sets the umask; the destructor restores it.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }

 private:
  mode_t before_;
};

}  // namespace

TEST_CASE("reader: a FIFO in a file's place is refused at once") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", saved = save_small(root, 1, 1);
  for (const std::string& path : {saved + "/model.safetensors", saved + "/meta.json", root + "/latest"}) {
    const std::string bytes = file_bytes(path);
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    std::string message;
    const auto open = [&] { message = refused([&] { CheckpointReader reader(find_checkpoint(root)); }); };
    REQUIRE(returns_in_time(open));
    open();
    CHECK(message != "");
    if (!contains(path, "meta.json")) CHECK(contains(message, path + ": expected a regular file"));
    fs::remove(path);
    write_bytes(path, bytes);
  }
  CHECK(refused([&] { CheckpointReader reader(find_checkpoint(root)); }) == "");
}

TEST_CASE("save: temporary files are accessible to their owner only, published files as by the umask") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  for (const auto& [mask, file_mode, folder_mode] :
       {std::tuple<mode_t, mode_t, mode_t>{022, 0644, 0755}, {027, 0640, 0750}, {0, 0666, 0777}}) {
    const Umask umask(mask);
    const std::string saved = save_small(root, 1, 1);
    CHECK(mode_of(saved) == folder_mode);
    for (const char* name : {"/meta.json", "/model.safetensors", "/optimizer.safetensors", "/../latest"})
      CHECK(mode_of(saved + name) == file_mode);
    const CheckpointWriter writer(root, 2);
    CHECK(mode_of(writer.folder()) == 0700);
    io::OutputFile file(folder / "plain");
    CHECK(mode_of(temporary_in(folder.path())) == 0600);
  }
}

TEST_CASE("save: temporary names are unpredictable, and links are not followed") {
  const TemporaryFolder folder;
  const std::string target = folder / "target";
  write_bytes(target, "mine");
  std::string first;
  {
    const io::OutputFile file(folder / "out");
    first = temporary_in(folder.path());
  }
  REQUIRE(first != "");
  // Links under the previous temporary name, and under the next ones if they were counted.
  const std::string stem = (folder / "out") + io::temporary_mark + std::to_string(::getpid()) + "-";
  fs::create_symlink(target, first);
  for (int i = 0; i < 2000; ++i)
    if (stem + std::to_string(i) != first) fs::create_symlink(target, stem + std::to_string(i));
  io::write_text_file(folder / "out", "new");
  CHECK(file_bytes(target) == "mine");
  CHECK(file_bytes(folder / "out") == "new");

  const std::string root = folder / "run", elsewhere = folder / "elsewhere";
  fs::create_directories(root);
  fs::create_directories(elsewhere);
  fs::create_directory_symlink(elsewhere,
                               root + "/step-00000001" + io::temporary_mark + std::to_string(::getpid()));
  // A link with a temporary name is removed; its target stays.
  write_bytes(elsewhere + "/notes.txt", "mine");
  CHECK(fs::is_directory(save_small(root, 1, 1)));
  CHECK(!fs::is_symlink(root + "/step-00000001"));
  CHECK(std::distance(fs::directory_iterator(elsewhere), {}) == 1);

  fs::create_symlink(target, folder / "link");
  io::write_text_file(folder / "link", "new");
  CHECK(!fs::is_symlink(folder / "link"));
  CHECK(file_bytes(target) == "mine");
}

TEST_CASE(
    "save: killed between the two renames of a replacement, the older checkpoint is found and restored") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", saved = save_small(root, 1, 7);
  const std::string replaced = saved + io::temporary_mark + "replaced";
  // Between the renames: the older one has its `replaced_name`, the newer one, complete, its temporary name.
  fs::copy(saved, saved + io::temporary_mark + "0123", fs::copy_options::recursive);
  fs::rename(saved, replaced);
  CHECK(list_checkpoints(root) == std::vector<int64_t>{1});
  for (const std::string& path : {root, root + "/latest"}) {
    const CheckpointReader reader(find_checkpoint(path));
    reader.verify();
    CHECK(reader.state().step == 1);
  }
  save_small(root, 2, 8);
  CHECK(list_checkpoints(root) == std::vector<int64_t>{1, 2});
  const auto loaded = small_run(0);
  load_checkpoint(CheckpointReader(saved), loaded);
  CHECK(same_bits(loaded, small_run(7)));
  CHECK(!fs::exists(replaced));
  CHECK(temporary_in(root) == "");
}
