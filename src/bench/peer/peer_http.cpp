#include "bench/peer/peer_http.h"

#include <curl/curl.h>

#include <memory>

#include "core/error.h"

namespace talon {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kSilenceSeconds = 300;  // a long prompt on a slow machine says nothing for minutes
constexpr long kDone = 200;
constexpr std::size_t kShownBytes = 300;

struct CleanHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct Exchange {
  CURL* handle = nullptr;
  HttpReply reply;
  const HttpListener* listener = nullptr;
  const StopFlag* stop = nullptr;

  long status() const {
    long code = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
};

std::size_t on_data(char* data, std::size_t size, std::size_t count, void* context) {
  auto& exchange = *static_cast<Exchange*>(context);
  const std::string_view piece(data, size * count);
  if (*exchange.listener && exchange.status() == kDone) {
    (*exchange.listener)(piece);
  } else {
    exchange.reply.body += piece;
  }
  return piece.size();
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& exchange = *static_cast<Exchange*>(context);
  return exchange.stop && exchange.stop->requested() ? 1 : 0;
}

}  // namespace

HttpReply http_request(const std::string& doing, const std::string& url, const Json* body,
                       const StopFlag* stop, const HttpListener& listener) {
  const std::unique_ptr<CURL, CleanHandle> handle(curl_easy_init());
  if (!handle) fail("{}: the HTTP library did not start", doing);
  Exchange exchange{handle.get(), {}, &listener, stop};
  char message[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(handle.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, kSilenceSeconds);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOPROXY, "localhost,127.0.0.1");
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFODATA, &exchange);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_WRITEFUNCTION, on_data);
  std::string text;
  std::unique_ptr<curl_slist, FreeList> headers;
  if (body) {
    text = body->dump();
    headers.reset(curl_slist_append(nullptr, "Content-Type: application/json"));
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(text.size()));
    set(CURLOPT_POSTFIELDS, text.c_str());
  }
  const CURLcode code = curl_easy_perform(handle.get());
  if (code != CURLE_OK)
    fail("{}: {}: {}", doing, url, message[0] ? message : curl_easy_strerror(code));
  exchange.reply.status = static_cast<int>(exchange.status());
  return std::move(exchange.reply);
}

Json http_json(const std::string& doing, const HttpReply& reply) {
  if (reply.status != kDone) {
    fail("{}: expected HTTP status 200, got {}: {}", doing, reply.status,
         reply.body.substr(0, kShownBytes));
  }
  Json json = Json::parse(reply.body, nullptr, false);
  if (!json.is_object())
    fail("{}: expected a JSON object, got {}", doing, reply.body.substr(0, kShownBytes));
  return json;
}

}  // namespace talon
