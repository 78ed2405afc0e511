#include "bench/peer.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::string_view kLlama = "llama.cpp";
constexpr std::string_view kOpenai = "openai";

PeerChoice parse_peer(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const std::size_t colon = name.find(':');
  PeerChoice peer;
  peer.name = "peer:" + std::string(name);
  if (equals != std::string_view::npos) peer.place = text.substr(equals + 1);
  if (colon != std::string_view::npos) peer.speculation = name.substr(colon + 1);
  const std::string_view kind = name.substr(0, colon);
  if (kind == kOpenai && colon == std::string_view::npos) {
    peer.kind = PeerChoice::Kind::openai;
  } else if (kind != kLlama || (colon != std::string_view::npos && peer.speculation.empty())) {
    throw UsageError(fmt::format(
        "peer: expected llama.cpp=PATH, llama.cpp:SPECULATION=PATH or openai=URL, got \"{}\"",
        text));
  }
  if (peer.place.empty()) {
    throw UsageError(fmt::format("peer {}: expected =PATH or =URL after the name", name));
  }
  return peer;
}

}  // namespace

std::vector<PeerChoice> parse_peers(std::string_view list) {
  std::vector<PeerChoice> peers;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    PeerChoice peer = parse_peer(list.substr(0, comma));
    const bool twice = std::any_of(peers.begin(), peers.end(), [&](const PeerChoice& other) {
      return other.name == peer.name;
    });
    if (twice) throw UsageError(fmt::format("{}: given twice", peer.name));
    peers.push_back(std::move(peer));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return peers;
}

std::unique_ptr<Contestant> make_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return choice.kind == PeerChoice::Kind::openai ? make_openai_peer(choice, setting)
                                                 : make_llama_peer(choice, setting);
}

}  // namespace talon
