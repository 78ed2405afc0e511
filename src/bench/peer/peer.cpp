#include "bench/peer/peer.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::string_view kPeer = "peer:";
constexpr std::string_view kLlama = "llama.cpp";
constexpr std::string_view kAdapters[] = {"transformers", "openvino"};
constexpr std::string_view kOpenai = "openai";

/// Takes #DRAFT off the place.
void take_draft(std::string_view method, PeerChoice& peer) {
  const std::size_t hash = peer.place.rfind('#');
  if (hash == peer.place.npos) return;
  peer.draft = peer.place.substr(hash + 1);
  peer.place.resize(hash);
  if (!peer.draft.empty() && !peer.speculation.empty()) return;
  throw UsageError(
      fmt::format("method \"{}\": expected {}:SPECULATION=PATH#DRAFT, with the type of "
                  "speculation and the file that it drafts with",
                  method, peer.name.substr(0, peer.name.find(':', kPeer.size()))));
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
  const std::string_view program = engine.substr(0, colon);
  const bool is_adapter = std::ranges::find(kAdapters, program) != std::end(kAdapters);
  if (engine == kOpenai) {
    peer.kind = PeerChoice::Kind::openai;
  } else if ((program != kLlama && !is_adapter) || engine.ends_with(':')) {
    throw UsageError(
        fmt::format("method \"{}\": expected peer:llama.cpp=PATH, "
                    "peer:llama.cpp:SPECULATION=PATH[#DRAFT], the same of peer:transformers or "
                    "peer:openvino, or peer:openai=URL",
                    method));
  } else {
    if (is_adapter) peer.kind = PeerChoice::Kind::adapter;
    take_draft(method, peer);
  }
  if (peer.place.empty()) {
    throw UsageError(fmt::format("method \"{}\": expected {} behind the name", method,
                                 engine == kOpenai ? "=URL"
                                 : is_adapter      ? "=PATH of a program that starts it"
                                                   : "=PATH of llama-server"));
  }
  return peer;
}

std::unique_ptr<Contestant> make_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return choice.kind == PeerChoice::Kind::openai ? make_openai_peer(choice, setting)
                                                 : make_llama_peer(choice, setting);
}

}  // namespace talon
