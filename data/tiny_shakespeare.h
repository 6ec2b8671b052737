#pragma once

#include <filesystem>
#include <string>

#include "data/download.h"

namespace tessera::data {

/// The user's cache: $XDG_CACHE_HOME/tessera, or ~/.cache/tessera; empty where neither is known.
std::filesystem::path cache_folder();

/// Where to look for tiny Shakespeare (A. Karpathy's char-rnn: 40,000 lines of the plays).
struct TinyShakespeareOptions {
  /// Looked at alone when given.
  std::filesystem::path file;
  /// The user's cache.
  std::filesystem::path cache = cache_folder();
  /// Whether to fetch it into the cache when it is nowhere else.
  bool fetch = true;
  /// What to fetch; `to` is set by the search. The length and the hash are those every copy is held to.
  Download source = {
      .url = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
      .to = {},
      .bytes = 1115394,
      .sha256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"};
};

/// A text, and where it was found.
struct FoundText {
  std::string content;
  std::string where;
};

/// Finds tiny Shakespeare: the file given; else $TESSERA_DATA/tiny-shakespeare/input.txt; else the cache;
/// else it is downloaded there. The first that exists counts, and is checked by length and hash; a wrong one
/// in the cache, which is ours, is fetched anew. Throws DataError, which says where it looked and advises
/// `--dataset builtin`.
FoundText find_tiny_shakespeare(const TinyShakespeareOptions& options = {});

}  // namespace tessera::data
