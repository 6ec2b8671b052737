#include "data/text/download.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "data/text/sha256.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// A new file beside `target`; removed unless it was renamed to `target`.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : name_(target.string() + ".XXXXXX") {
    std::error_code error;
    if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
    if (error)
      throw DataError(text("folder ", target.parent_path().string(), ": cannot be made: ", error.message()));
    descriptor_ = ::mkstemp(name_.data());
    if (descriptor_ < 0)
      throw DataError(text("folder ", target.parent_path().string(), ": cannot be written: ", reason(errno)));
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// Whether all bytes were written; if not, errno has the reason.
  bool write(const char* bytes, size_t count) {
    while (count > 0) {
      const ssize_t n = ::write(descriptor_, bytes, count);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      bytes += n;
      count -= static_cast<size_t>(n);
    }
    return true;
  }

  void rename_to(const std::filesystem::path& target) {
    const bool done = ::fsync(descriptor_) == 0 && ::rename(name_.c_str(), target.c_str()) == 0;
    if (!done) throw DataError(text("file ", target.string(), ": cannot be written: ", reason(errno)));
    name_.clear();
  }

 private:
  std::string name_;
  int descriptor_ = -1;
};

/// Counts, hashes and writes the bytes received. Called by C code, so it throws nothing.
struct Receiver {
  TemporaryFile& file;
  int64_t expected_bytes;
  Sha256 hash{};
  int64_t bytes = 0;
  std::string problem{};

  static size_t write_callback(char* data, size_t size, size_t count, void* self) noexcept {
    auto& receiver = *static_cast<Receiver*>(self);
    return receiver.append(data, size * count) ? size * count : 0;
  }
  bool append(const char* data, size_t count) noexcept try {
    bytes += static_cast<int64_t>(count);
    if (bytes > expected_bytes) {
      problem = text("more than the expected ", expected_bytes, " bytes arrived");
      return false;
    }
    hash.update(data, count);
    if (file.write(data, count)) return true;
    problem = text("cannot be written: ", reason(errno));
    return false;
  } catch (const std::exception& error) {
    problem = error.what();
    return false;
  }
};

/// Runs the transfer. Returns the error, or an empty string.
std::string transfer(const Download& request, Receiver& receiver) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(ready == CURLE_OK ? curl_easy_init() : nullptr,
                                                    curl_easy_cleanup);
  if (!curl) return "libcurl could not be initialised";
  char detail[CURL_ERROR_SIZE] = "";
  const auto set = [&curl](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_PROTOCOLS_STR, "https,http,file");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "https,http");
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(request.connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout.count()));
  set(CURLOPT_TIMEOUT, static_cast<long>(request.timeout.count()));
  set(CURLOPT_WRITEFUNCTION, &Receiver::write_callback);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&receiver));
  const CURLcode result = curl_easy_perform(curl.get());
  if (result == CURLE_OK) return "";
  if (!receiver.problem.empty()) return receiver.problem;
  return detail[0] != '\0' ? detail : curl_easy_strerror(result);
}

}  // namespace

void download(const Download& request) {
  TemporaryFile file(request.to);
  Receiver receiver{file, request.bytes};
  const std::string problem = transfer(request, receiver);
  require<DataError>(problem.empty(), request.url, ": ", problem);
  require<DataError>(receiver.bytes == request.bytes, request.url, ": ", receiver.bytes,
                     " bytes arrived, expected ", request.bytes);
  const std::string got = receiver.hash.hex();
  require<DataError>(got == request.sha256, request.url, ": sha256 is ", got, ", expected ", request.sha256);
  file.rename_to(request.to);
}

}  // namespace tessera::data
