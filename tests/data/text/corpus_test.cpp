#include "data/text/corpus.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

#include "data/text/sha256.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

data::Corpus open(const std::string& dataset, const fs::path& path) {
  data::CorpusOptions options;
  options.dataset = dataset;
  options.data = path;
  return data::open_corpus(options);
}

std::string error_message(const std::string& dataset, const fs::path& path) {
  return message_of<DataError>([&] { open(dataset, path); });
}

/// Runs as an unprivileged user in its scope: root could read every file.
class UnprivilegedUser {
 public:
  UnprivilegedUser() {
    if (original_ == 0) failed_ = ::seteuid(65534) != 0;
  }
  ~UnprivilegedUser() {
    if (original_ == 0) failed_ = ::seteuid(0) != 0;
  }
  bool failed() const { return failed_; }

 private:
  uid_t original_ = ::geteuid();
  bool failed_ = false;
};

}  // namespace

TEST_CASE("sha256: the standard's examples") {
  CHECK(data::sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(data::sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  data::Sha256 chunks;
  chunks.update("a", 1);
  chunks.update("bc", 2);
  CHECK(chunks.hex() == data::sha256_hex("abc"));
}

TEST_CASE("corpus: a text file is split after the first 90 %, rounded down") {
  const TemporaryFolder folder;
  const fs::path path = folder.write("play.txt", "zabcdefghijklmnopq\xC3\xA9");  // 19 characters
  const data::Corpus corpus = open("text", path);
  CHECK(corpus.dataset == "text");
  CHECK(corpus.train.size() == 17);
  CHECK(corpus.validation.size() == 2);
  CHECK(corpus.vocabulary_size == 19);
  CHECK(corpus.train[0] == 17);       // z
  CHECK(corpus.validation[1] == 18);  // e with acute
  CHECK_FALSE(corpus.entropy.has_value());
}

TEST_CASE("corpus: the sizes of nanoGPT's split of tiny Shakespeare") {
  const data::Corpus corpus = data::text_corpus(std::string(1115394, 'x'), "as long as tiny Shakespeare");
  CHECK(corpus.train.size() == 1003854);
  CHECK(corpus.validation.size() == 111540);
}

TEST_CASE("corpus: the builtin play has a known entropy") {
  data::CorpusOptions options;
  options.dataset = "builtin";
  const data::Corpus corpus = data::open_corpus(options);
  CHECK(corpus.entropy == data::play_grammar().entropy());
  CHECK(corpus.train.size() + corpus.validation.size() == static_cast<int64_t>(data::write_play().size()));
  CHECK(corpus.vocabulary_size == corpus.train.smallest_vocabulary());
}

TEST_CASE("corpus: a saved vocabulary encodes another text, or refuses it") {
  const data::Corpus first = data::text_corpus("abcdefghij", "first");
  CHECK(data::text_corpus("jjjjjjjjja", "second", first.vocabulary).train[0] == 9);
  CHECK(contains(message_of<DataError>([&] { data::text_corpus("abcxyz", "second", first.vocabulary); }),
                 "second: character 'x' (U+0078) at position 3 is not among the 10"));
}

TEST_CASE("corpus: files that are missing, folders, empty, not UTF-8 or not readable are refused") {
  const TemporaryFolder folder;
  CHECK(error_message("text", folder / "none.txt") ==
        "text file " + (folder / "none.txt") + ": does not exist");
  CHECK(contains(error_message("text", folder.path()), "is a directory, expected a file"));
  CHECK(contains(error_message("text", folder.write("empty.txt", "")), "empty.txt: is empty"));
  CHECK(contains(error_message("text", folder.write("latin1.txt", "caf\xE9 au lait")),
                 "latin1.txt: not UTF-8: byte 0xE9 at offset 3"));
  CHECK(contains(error_message("text", "/dev/null"), "is not a regular file"));

  const fs::path secret = folder.write("secret.txt", "some text");
  fs::permissions(secret, fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  const UnprivilegedUser user;
  REQUIRE_FALSE(user.failed());
  CHECK(contains(error_message("text", secret), "permission denied"));
}

TEST_CASE("corpus: unknown datasets and a missing or superfluous --data are configuration errors") {
  const auto problem = [](const std::string& dataset, const fs::path& path) {
    return message_of<ConfigError>([&] { open(dataset, path); });
  };
  CHECK(contains(problem("shakespear", ""), "expected tiny-shakespeare, builtin, text or tokens"));
  CHECK(contains(problem("text", ""), "'text' needs `--data FILE`"));
  CHECK(contains(problem("tokens", ""), "'tokens' needs `--data FOLDER`"));
  CHECK(contains(problem("builtin", "x.txt"), "takes no `--data`, got x.txt"));
}

TEST_CASE("tokens: nanoGPT's files, little-endian") {
  const TemporaryFolder folder;
  folder.write("train.bin", std::string_view("\x01\x00\x00\x02\xFF\xC3", 6));
  folder.write("val.bin", std::string_view("\x07\x00\x02\x00", 4));
  const data::Corpus corpus = open("tokens", folder.path());
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[0] == 1);
  CHECK(corpus.train[1] == 512);
  CHECK(corpus.train[2] == 50175);
  CHECK(corpus.validation[0] == 7);
  CHECK(corpus.vocabulary_size == 50176);
  CHECK_FALSE(corpus.vocabulary.has_value());
}

TEST_CASE("tokens: files that are missing, empty, truncated, or with ids beyond the vocabulary are refused") {
  const TemporaryFolder folder;
  CHECK(contains(error_message("tokens", folder.path()), "train.bin: does not exist"));
  folder.write("train.bin", "");
  CHECK(contains(error_message("tokens", folder.path()), "train.bin: is empty"));
  folder.write("train.bin", "abcde");
  CHECK(contains(error_message("tokens", folder.path()), "train.bin: 5 bytes, expected an even number"));
  folder.write("train.bin", std::string_view("\x01\x00\x09\x00", 4));
  folder.write("val.bin", std::string_view("\x01\x00", 2));
  data::CorpusOptions options;
  options.dataset = "tokens";
  options.data = folder.path();
  options.vocabulary_size = 9;
  CHECK(contains(message_of<DataError>([&] { data::open_corpus(options); }),
                 "train.bin: id 9 at position 1, the vocabulary has 9"));
  options.vocabulary_size = 10;
  CHECK(data::open_corpus(options).vocabulary_size == 10);
}

TEST_CASE("tokens: ranges share the ids and keep them alive") {
  data::Tokens range;
  {
    const data::Tokens all({5, 6, 7, 8}, "all");
    range = all.range(1, 2, "middle");
    CHECK(contains(message_of<DataError>([&] { all.range(3, 2, "beyond"); }),
                   "all: expected tokens in [0, 4), got [3, 5)"));
  }
  CHECK(range.name() == "middle");
  CHECK(std::equal(range.begin(), range.end(), std::begin({6, 7})));
}
