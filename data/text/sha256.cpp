#include "data/text/sha256.h"

#include <openssl/evp.h>

#include "tensor/error.h"

namespace tessera::data {

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(handle); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require<DataError>(
      context_->handle != nullptr && EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) == 1,
      "sha256: OpenSSL has no SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, size_t count) {
  require<DataError>(EVP_DigestUpdate(context_->handle, bytes, count) == 1, "sha256: OpenSSL failed");
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  require<DataError>(EVP_DigestFinal_ex(context_->handle, digest, &length) == 1, "sha256: OpenSSL failed");
  std::string result;
  for (unsigned i = 0; i < length; ++i) {
    constexpr char digits[] = "0123456789abcdef";
    result += digits[digest[i] >> 4];
    result += digits[digest[i] & 15];
  }
  return result;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

}  // namespace tessera::data
