#include "bench/peer/peer.h"

#include "core/error.h"

namespace talon {
namespace {

constexpr std::string_view kPeer = "peer:";
constexpr std::string_view kLlama = "llama.cpp";
constexpr std::string_view kOpenai = "openai";

/// Takes #DRAFT off the place.
void take_draft(std::string_view method, PeerChoice& peer) {
  const std::size_t hash = peer.place.rfind('#');
  if (hash == peer.place.npos) return;
  peer.draft = peer.place.substr(hash + 1);
  peer.place.resize(hash);
  if (!peer.draft.empty() && !peer.speculation.empty()) return;
  throw UsageError(
      fmt::format("method \"{}\": expected peer:llama.cpp:SPECULATION=PATH#DRAFT, with the type of "
                  "speculation and the file that it drafts with",
                  method));
}

}  // namespace

bool is_peer(std::string_view method) { return method.starts_with(kPeer); }

PeerChoice parse_peer(std::string_view method) {
  const std::size_t equals = method.find('=');
  PeerChoice peer;
  peer.name = method.substr(0, equals);
  if (equals != method.npos) peer.place = method.substr(equals + 1);
  const std::string_view engine = std::string_view(peer.name).substr(kPeer.size());
  const std::size_t colon = engine.find(':');
  if (colon != engine.npos) peer.speculation = engine.substr(colon + 1);
  if (engine == kOpenai) {
    peer.kind = PeerChoice::Kind::openai;
  } else if (engine.substr(0, colon) != kLlama || engine.ends_with(':')) {
    throw UsageError(
        fmt::format("method \"{}\": expected peer:llama.cpp=PATH, "
                    "peer:llama.cpp:SPECULATION=PATH[#DRAFT] or peer:openai=URL",
                    method));
  } else {
    take_draft(method, peer);
  }
  if (peer.place.empty()) {
    throw UsageError(fmt::format("method \"{}\": expected {} behind the name", method,
                                 engine == kOpenai ? "=URL" : "=PATH of llama-server"));
  }
  return peer;
}

std::unique_ptr<Contestant> make_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return choice.kind == PeerChoice::Kind::openai ? make_openai_peer(choice, setting)
                                                 : make_llama_peer(choice, setting);
}

}  // namespace talon
