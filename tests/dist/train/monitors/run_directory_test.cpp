#include "dist/train/monitors/run_directory.h"

#include <doctest/doctest.h>
#include <json/json.h>
#include <tessera/version.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

Json::Value json_of(const std::string& path) {
  std::ifstream file(path);
  Json::Value value;
  file >> value;
  return value;
}

const RunRecord record{
    {{"z", "1"}, {"a \"b\"", "two\nlines"}, {"m", ""}},
    {"a run", {"x", "y"}, "2025-01-31T23:59:59Z", "host", "CPU", "0.1.0", {"train", "--lr", "1"}, "demo"}};

}  // namespace

TEST_CASE("run directory: what is written is read back, in the same order") {
  const TemporaryFolder folder;
  const std::string path = folder / "out/run";
  write_run_directory(path, record);
  CHECK(read_run_directory(path) == record);
  CHECK(json_of(path + "/configuration.json")["a \"b\""] == "two\nlines");
  const Json::Value metadata = json_of(path + "/metadata.json");
  CHECK(metadata["start_time"] == "2025-01-31T23:59:59Z");
  CHECK(metadata["command_line"][1] == "--lr");
  CHECK(metadata["project"] == "demo");

  RunRecord second = record;  // a second run replaces both
  second.configuration = {};
  second.metadata.tags = {};
  second.metadata.project = "";
  write_run_directory(path, second);
  CHECK(read_run_directory(path) == second);
  CHECK_FALSE(json_of(path + "/metadata.json").isMember("project"));  // as folders of before have it
  for (const auto& entry : std::filesystem::directory_iterator(path))
    CHECK(entry.path().extension() == ".json");  // no temporary file is left
}

TEST_CASE("run directory: the record of a run names this machine and version") {
  const RunRecord now = describe_run(
      {.project = "demo", .name = "n", .tags = {"t"}, .configuration = {{"lr", "1"}}}, {"program"});
  CHECK(now.configuration.at(0).second == "1");
  CHECK(now.metadata.project == "demo");
  CHECK(now.metadata.name == "n");
  CHECK(now.metadata.tags.at(0) == "t");
  CHECK(now.metadata.version == TESSERA_VERSION);
  CHECK(now.metadata.command_line.at(0) == "program");
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  CHECK(now.metadata.host == host);
  CHECK_FALSE(now.metadata.processor.empty());
  CHECK(now.metadata.start_time.size() == 20);
  CHECK(now.metadata.start_time.back() == 'Z');
}

TEST_CASE("run directory: a missing or malformed file is an error with path and line") {
  const TemporaryFolder folder;
  write_run_directory(folder.path(), record);
  const std::string configuration = folder / "configuration.json", metadata = folder / "metadata.json";
  const auto message = [&] { return message_of<DataError>([&] { read_run_directory(folder.path()); }); };
  SUBCASE("no folder") {
    CHECK(contains(message_of<DataError>([&] { read_run_directory(folder / "other"); }),
                   folder / "other/configuration.json: cannot open: No such file"));
  }
  SUBCASE("no metadata") {
    std::filesystem::remove(metadata);
    CHECK(contains(message(), metadata + ": cannot open: No such file"));
  }
  SUBCASE("cut off") {
    folder.write("configuration.json", "{\n  \"a\": \"1\",\n  \"b\": ");
    CHECK(contains(message(), configuration + ":3: not JSON: "));
  }
  SUBCASE("an error of syntax") {
    folder.write("configuration.json", "{\n  \"a\": 1x,\n  \"b\": \"\"\n}\n");
    CHECK(contains(message(), configuration + ":2: not JSON: "));
  }
  SUBCASE("an option that is no string") {
    folder.write("configuration.json", "{\n  \"a\": \"1\",\n  \"b\": 2\n}\n");
    CHECK(contains(message(), configuration + ":3: 'b': expected a string"));
  }
  SUBCASE("an option twice") {
    folder.write("configuration.json", "{\n  \"a\": \"1\",\n  \"a\": \"2\"\n}\n");
    CHECK(contains(message(), configuration + ":3: not JSON: "));
  }
  SUBCASE("a field that is missing") {
    folder.write("metadata.json", "{\n  \"name\": \"n\"\n}\n");
    CHECK(contains(message(), metadata + ":1: has no 'tags'"));
  }
  SUBCASE("a field that is unknown") {
    Json::Value value = json_of(metadata);
    value["zone"] = "x";
    folder.write("metadata.json", value.toStyledString());
    CHECK(contains(message(), "'zone': not a field of this file"));
  }
  SUBCASE("tags that are no array") {
    folder.write("metadata.json", "{\n  \"name\": \"n\",\n\n  \"tags\": \"x\"\n}\n");
    CHECK(contains(message(), metadata + ":4: 'tags': expected an array of strings"));
  }
}

TEST_CASE("run directory: a folder that cannot be made is an error that names it") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "") + "/run";
  CHECK(contains(message_of<ConfigError>([&] { write_run_directory(path, record); }),
                 path + ": cannot make the folder: "));
  RunRecord twice = record;
  twice.configuration.push_back(twice.configuration[0]);
  CHECK(contains(message_of<ConfigError>([&] { write_run_directory(folder.path(), twice); }), "'z' twice"));
}
