#include "bench/peer/peer_http.h"

#include "core/error.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

constexpr int kConnectSeconds = 10;
constexpr int kSilenceSeconds = 300;  // a long prompt on a slow machine says nothing for minutes
constexpr std::size_t kShownBytes = 300;

}  // namespace

HttpReply http_request(const std::string& doing, const std::string& url, const Json* body,
                       const StopFlag* stop, const HttpListener& listener) {
  HttpReply reply;
  HttpTransfer transfer{.url = url,
                        .connect_seconds = kConnectSeconds,
                        .silence_seconds = kSilenceSeconds,
                        .on_data = [&](int status, std::string_view piece) {
                          if (listener && status == kHttpDone) {
                            listener(piece);
                          } else {
                            reply.body += piece;
                          }
                          return true;
                        }};
  transfer.stops = [&] { return stop && stop->requested(); };
  if (body) {
    transfer.headers = {"Content-Type: application/json"};
    transfer.body = body->dump();
  }
  const TransferOutcome outcome = run_transfer(transfer);
  if (outcome.end != TransferOutcome::End::done) fail("{}: {}: {}", doing, url, outcome.problem);
  reply.status = outcome.status;
  return reply;
}

bool may_refuse_ids(int status) { return status == 400 || status == 415 || status == 422; }

Json http_json(const std::string& doing, const HttpReply& reply) {
  if (reply.status != kHttpDone) {
    fail("{}: expected HTTP status 200, got {}: {}", doing, reply.status,
         reply.body.substr(0, kShownBytes));
  }
  Json json = Json::parse(reply.body, nullptr, false);
  if (!json.is_object())
    fail("{}: expected a JSON object, got {}", doing, reply.body.substr(0, kShownBytes));
  return json;
}

}  // namespace talon
