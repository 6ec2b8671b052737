#pragma once

#include <string>

#include "data/text/download.h"

namespace tessera::data {

/// The user's cache: $XDG_CACHE_HOME/tessera, or ~/.cache/tessera; empty where neither variable is set.
std::string cache_folder();

/// Where to search for tiny Shakespeare (A. Karpathy's char-rnn: 40,000 lines of the plays).
struct TinyShakespeareOptions {
  /// When given, the only place that is searched.
  std::string file;
  /// The user's cache.
  std::string cache = cache_folder();
  /// Whether to download it into the cache when it is not found.
  bool fetch = true;
  /// The download; the search sets `to`. Every copy must have this length and hash.
  Download source = {
      .url = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
      .to = {},
      .bytes = 1115394,
      .sha256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"};
};

/// A text, and its location.
struct FoundText {
  std::string content;  ///< the bytes of the file
  std::string source;   ///< its path, with the URL where it was downloaded now
};

/// Finds tiny Shakespeare: the file given; else $TESSERA_DATA/tiny-shakespeare/input.txt; else the cache;
/// else it is downloaded there. The first that exists is taken, and checked by length and hash; a wrong one
/// in the cache is downloaded again. Throws DataError that lists the places searched and advises
/// `--dataset builtin`.
FoundText find_tiny_shakespeare(const TinyShakespeareOptions& options = {});

}  // namespace tessera::data
