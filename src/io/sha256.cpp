#include "io/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  EVP_MD_CTX* digest = context_->digest.get();
  if (digest == nullptr || EVP_DigestInit_ex(digest, EVP_sha256(), nullptr) != 1) {
    fail("start SHA-256: the cryptography library refuses");
  }
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  const int done = EVP_DigestUpdate(context_->digest.get(), bytes.data(), bytes.size());
  expects(done == 1, "Sha256::update: not finished yet");
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  const int done = EVP_DigestFinal_ex(context_->digest.get(), digest.data(), nullptr);
  expects(done == 1, "Sha256::finish: not finished yet");
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_of(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish();
}

std::string sha256_of_file(const std::filesystem::path& file,
                           const std::function<void(std::uint64_t bytes)>& read) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(1 << 20);
  Sha256 sha;
  std::uint64_t bytes = 0;
  while (stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto size = static_cast<std::size_t>(stream.gcount());
    sha.update(std::as_bytes(std::span(piece).first(size)));
    bytes += size;
    if (read) read(bytes);
  }
  if (!stream.eof()) {
    fail("read {}: {}", quote(file.string()), std::generic_category().message(errno));
  }
  return sha.finish();
}

}  // namespace talon
