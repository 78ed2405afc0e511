#include "serve/http/response_head.h"

#include <gtest/gtest.h>

namespace talon::response_head_test {
namespace {

TEST(HttpDate, IsWrittenAsHttpHasIt) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");  // RFC 9110's own
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(1709164800), "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST(ResponseHead, SaysWhatIsThere) {
  const std::string always =
      "Server: talon\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Request-Id: a\r\n"
      "Request-Id: a\r\n";
  EXPECT_EQ(write_response_head({.status = 304, .content_type = "text/html", .request_id = "a"}, 0),
            "HTTP/1.1 304 Not Modified\r\n" + always);
  EXPECT_EQ(write_response_head({.content_type = "text/html",
                                 .request_id = "a",
                                 .connection = "close",
                                 .cors = "http://page.example"},
                                0),
            "HTTP/1.1 200 OK\r\n" + always +
                "Content-Type: text/html\r\nConnection: close\r\n"
                "Access-Control-Allow-Origin: http://page.example\r\n"
                "Access-Control-Expose-Headers: X-Request-Id, Request-Id, Retry-After\r\n");
}

}  // namespace
}  // namespace talon::response_head_test
