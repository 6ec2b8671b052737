#include "data/text/download.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "data/text/file.h"
#include "data/text/sha256.h"
#include "data/text/tiny_shakespeare.h"
#include "tensor/error.h"
#include "tests/support/environment.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A web server in this process, at 127.0.0.1, with the same answer to every request.
class Server {
 public:
  /// `silent`: accepts requests and never answers.
  explicit Server(std::string answer, bool silent = false) : answer_(std::move(answer)), silent_(silent) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const bool ready = listener_ >= 0 &&
                       ::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                       ::listen(listener_, 8) == 0 &&
                       ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    if (!ready) throw std::runtime_error("no server at 127.0.0.1");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    stopping_ = true;
    thread_.join();
    ::close(listener_);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/input.txt"; }
  int requests() const { return requests_; }

 private:
  bool readable(int socket) const {
    while (!stopping_) {
      pollfd wait{socket, POLLIN, 0};
      if (::poll(&wait, 1, 10) > 0) return true;
    }
    return false;
  }
  void serve() {
    while (readable(listener_)) {
      const int client = ::accept(listener_, nullptr, nullptr);
      char request[4096];
      if (readable(client)) request[0] = ::recv(client, request, sizeof request, 0) > 0;
      ++requests_;
      if (silent_)
        readable(client);  // until the client disconnects
      else
        for (size_t sent = 0; sent < answer_.size();) {
          const ssize_t n = ::send(client, answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
          if (n <= 0) break;
          sent += static_cast<size_t>(n);
        }
      ::close(client);
    }
  }

  std::string answer_;
  bool silent_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> requests_{0};
  std::thread thread_;
};

std::string page(const std::string& content, size_t content_length) {
  return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(content_length) +
         "\r\n\r\n" + content;
}
std::string page(const std::string& content) {
  return page(content, content.size());
}

const std::string play = "First Citizen:\nBefore we proceed any further, hear me speak.\n";

data::Download play_from(const std::string& url, const fs::path& to = {}) {
  return {.url = url, .to = to, .bytes = static_cast<int64_t>(play.size()), .sha256 = data::sha256_hex(play)};
}

/// The error message of a download. Checks that no file remains.
std::string error_message(const data::Download& request) {
  const std::string message = message_of<DataError>([&] { data::download(request); });
  CHECK(fs::is_empty(fs::path(request.to).parent_path()));
  return message;
}

/// The environment of a search for tiny Shakespeare: no proxy, no $TESSERA_DATA, and an empty cache.
struct SearchEnvironment {
  TemporaryFolder folder;
  Environment proxy{"no_proxy", "127.0.0.1"}, cache{"XDG_CACHE_HOME", (folder / "cache").c_str()},
      shared{"TESSERA_DATA", nullptr};

  fs::path cached() const { return folder / "cache/tessera/tiny-shakespeare/input.txt"; }
  /// A search for a smaller play under the same name.
  data::TinyShakespeareOptions search(const std::string& url) const {
    data::TinyShakespeareOptions options;
    options.source = play_from(url);
    return options;
  }
};

}  // namespace

TEST_CASE("download: the file arrives complete, in folders that are created for it") {
  const TemporaryFolder folder;
  const Environment proxy("no_proxy", "127.0.0.1");
  const Server server(page(play));
  const fs::path to = folder / "new/folder/input.txt";
  data::download(play_from(server.url(), to));
  CHECK(data::read_file(to) == play);
  CHECK(std::distance(fs::directory_iterator(to.parent_path()), fs::directory_iterator()) == 1);
}

TEST_CASE("download: wrong content, a lost connection, a refusal and a timeout leave no file") {
  const TemporaryFolder folder;
  const Environment proxy("no_proxy", "127.0.0.1");
  const fs::path to = folder / "input.txt";
  std::string other = play;
  other.back() = '!';
  {
    const Server server(page(other));
    CHECK(error_message(play_from(server.url(), to)) ==
          server.url() + ": sha256 is " + data::sha256_hex(other) + ", expected " + data::sha256_hex(play));
  }
  {
    const Server server(page(play.substr(0, 20)));
    CHECK(contains(error_message(play_from(server.url(), to)), ": 20 bytes arrived, expected 61"));
  }
  {
    const Server server(page(play.substr(0, 20), play.size()));
    CHECK(contains(error_message(play_from(server.url(), to)), "transfer closed with"));
  }
  {
    const Server server(page(play + play));
    CHECK(contains(error_message(play_from(server.url(), to)), "more than the expected 61 bytes"));
  }
  {
    const Server server("HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    CHECK(contains(error_message(play_from(server.url(), to)), "404"));
  }
  {
    const Server server("", /*silent=*/true);
    data::Download request = play_from(server.url(), to);
    request.timeout = 1s;
    CHECK(contains(error_message(request), "timed out"));
  }
  CHECK(contains(error_message(play_from("http://127.0.0.1:1/input.txt", to)), "127.0.0.1"));
  CHECK(contains(error_message(play_from("file://" + (folder / "none"), to)), "none"));
}

TEST_CASE("download: an existing file stays until the new one is complete") {
  const TemporaryFolder folder;
  const fs::path source = folder.write("source.txt", "another text"),
                 to = folder.write("cache/input.txt", "old");
  CHECK(contains(message_of<DataError>([&] { data::download(play_from("file://" + source.string(), to)); }),
                 "12 bytes arrived"));
  CHECK(data::read_file(to) == "old");
  folder.write("source.txt", play);
  data::download(play_from("file://" + source.string(), to));
  CHECK(data::read_file(to) == play);
}

TEST_CASE("download: a folder that cannot be made or written is an error") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "x"), source = folder.write("source.txt", play);
  CHECK(contains(message_of<DataError>([&] {
                   data::download(play_from("file://" + source.string(), file / "sub" / "input.txt"));
                 }),
                 "cannot be made"));
  CHECK(contains(message_of<DataError>(
                     [&] { data::download(play_from("file://" + source.string(), file / "input.txt")); }),
                 "cannot be"));
}

TEST_CASE("tiny Shakespeare: the expected length and hash") {
  const data::TinyShakespeareOptions options;
  CHECK(options.source.bytes == 1115394);
  CHECK(options.source.sha256 == "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed");
}

TEST_CASE("tiny Shakespeare: the file given, $TESSERA_DATA, the cache, the download, in that order") {
  const SearchEnvironment environment;
  const Server server(page(play));
  auto search = environment.search(server.url());

  const data::FoundText downloaded = data::find_tiny_shakespeare(search);
  CHECK(downloaded.content == play);
  CHECK(downloaded.source == environment.cached().string() + " (downloaded from " + server.url() + ")");
  CHECK(server.requests() == 1);

  CHECK(data::find_tiny_shakespeare(search).source == environment.cached().string());
  CHECK(server.requests() == 1);

  const Environment shared("TESSERA_DATA", (environment.folder / "shared").c_str());
  CHECK(data::find_tiny_shakespeare(search).source == environment.cached().string());
  const fs::path in_shared = environment.folder.write("shared/tiny-shakespeare/input.txt", play);
  CHECK(data::find_tiny_shakespeare(search).source == in_shared.string());

  search.file = environment.folder.write("mine.txt", play);
  CHECK(data::find_tiny_shakespeare(search).source == search.file);
}

TEST_CASE(
    "tiny Shakespeare: a wrong copy of the user is refused, a wrong one in the cache is downloaded again") {
  const SearchEnvironment environment;
  const Server server(page(play));
  auto search = environment.search(server.url());
  environment.folder.write("cache/tessera/tiny-shakespeare/input.txt", "cut sho");
  CHECK(data::find_tiny_shakespeare(search).content == play);
  CHECK(data::read_file(environment.cached()) == play);

  std::string other = play;
  other[3] = 'X';
  search.file = environment.folder.write("mine.txt", other);
  const std::string message = message_of<DataError>([&] { data::find_tiny_shakespeare(search); });
  CHECK(contains(message,
                 "mine.txt: sha256 is " + data::sha256_hex(other) + ", expected " + data::sha256_hex(play)));
  CHECK(contains(message, "--dataset builtin"));
  CHECK(data::read_file(search.file) == other);

  search.file = environment.folder / "none.txt";
  CHECK(contains(message_of<DataError>([&] { data::find_tiny_shakespeare(search); }),
                 "none.txt: does not exist; `--dataset builtin` trains"));
  search.file.clear();
  environment.folder.write("shared/tiny-shakespeare/input.txt", "short");
  const Environment shared("TESSERA_DATA", (environment.folder / "shared").c_str());
  CHECK(
      contains(message_of<DataError>([&] { data::find_tiny_shakespeare(search); }), "5 bytes, expected 61"));
  CHECK(server.requests() == 1);
}

TEST_CASE("tiny Shakespeare: where it is not available, the error advises the builtin play") {
  const SearchEnvironment environment;
  const Server server("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  auto search = environment.search(server.url());
  const std::string message = message_of<DataError>([&] { data::find_tiny_shakespeare(search); });
  CHECK(contains(message, "could not be downloaded"));
  CHECK(contains(message, "503"));
  CHECK(contains(message, "--dataset builtin"));
  search.fetch = false;
  CHECK(contains(message_of<DataError>([&] { data::find_tiny_shakespeare(search); }), "--dataset builtin"));
  environment.folder.write("cache/tessera/tiny-shakespeare/input.txt", "cut sho");
  CHECK(
      contains(message_of<DataError>([&] { data::find_tiny_shakespeare(search); }), "7 bytes, expected 61"));
}

TEST_CASE("cache folder: the XDG variable where it is absolute, else the home folder") {
  const Environment home("HOME", "/base/of/caches");
  {
    const Environment xdg("XDG_CACHE_HOME", "/fast/cache");
    CHECK(data::cache_folder() == "/fast/cache/tessera");
  }
  {
    const Environment xdg("XDG_CACHE_HOME", "relative");
    CHECK(data::cache_folder() == "/base/of/caches/.cache/tessera");
  }
  const Environment xdg("XDG_CACHE_HOME", nullptr), no_home("HOME", nullptr);
  CHECK(data::cache_folder().empty());
}
