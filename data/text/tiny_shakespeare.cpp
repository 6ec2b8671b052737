#include "data/text/tiny_shakespeare.h"

#include <cstdlib>
#include <filesystem>

#include "data/text/file.h"
#include "data/text/sha256.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* subject = "tiny Shakespeare";
constexpr const char* advice = "; `--dataset builtin` trains on the embedded play, which needs no file";

fs::path environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

bool may_exist(const fs::path& path) {
  std::error_code error;  // a folder without search permission: the read reports it
  return !path.empty() && (fs::exists(path, error) || error);
}

/// The mismatch of a copy, or an empty string.
std::string problem_of(const std::string& content, const Download& expected) {
  if (static_cast<int64_t>(content.size()) != expected.bytes)
    return text(content.size(), " bytes, expected ", expected.bytes);
  const std::string got = sha256_hex(content);
  return got == expected.sha256 ? "" : text("sha256 is ", got, ", expected ", expected.sha256);
}

/// The file's content; errors get `advice` appended.
FoundText read(const fs::path& path) try {
  return {read_file(path, subject), path.string()};
} catch (const DataError& error) {
  throw DataError(std::string(error.what()) + advice);
}

FoundText read_checked(const fs::path& path, const Download& expected) {
  FoundText found = read(path);
  const std::string problem = problem_of(found.content, expected);
  require<DataError>(problem.empty(), subject, " ", path.string(), ": ", problem,
                     "; `--dataset text` takes any UTF-8 text", advice);
  return found;
}

FoundText fetch(const fs::path& to, Download source) {
  source.to = to.string();
  try {
    download(source);
  } catch (const DataError& error) {
    throw DataError(text(subject, " could not be downloaded: ", error.what(), advice,
                         "; or give the file with `--data FILE`"));
  }
  FoundText found = read_checked(to, source);
  found.source += " (downloaded from " + source.url + ")";
  return found;
}

}  // namespace

std::string cache_folder() {
  const fs::path xdg = environment("XDG_CACHE_HOME");
  if (xdg.is_absolute()) return (xdg / "tessera").string();  // the XDG specification ignores a relative path
  const fs::path home = environment("HOME");
  return home.empty() ? "" : (home / ".cache" / "tessera").string();
}

FoundText find_tiny_shakespeare(const TinyShakespeareOptions& options) {
  const fs::path inside = fs::path("tiny-shakespeare") / "input.txt";
  if (!options.file.empty()) return read_checked(options.file, options.source);
  const fs::path shared = environment("TESSERA_DATA");
  if (!shared.empty() && may_exist(shared / inside)) return read_checked(shared / inside, options.source);

  const fs::path cached = options.cache.empty() ? fs::path() : fs::path(options.cache) / inside;
  if (may_exist(cached)) {
    FoundText found = read(cached);
    if (problem_of(found.content, options.source).empty()) return found;
    if (!options.fetch) return read_checked(cached, options.source);  // throws
  }
  require<DataError>(options.fetch && !cached.empty(), subject, " is neither in $TESSERA_DATA (",
                     shared.empty() ? "not set" : shared.string(), ") nor in the cache (",
                     cached.empty() ? "neither XDG_CACHE_HOME nor HOME is set" : cached.string(), ")", advice,
                     "; or give the file with `--data FILE`");
  return fetch(cached, options.source);
}

}  // namespace tessera::data
