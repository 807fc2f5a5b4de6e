/* string.cpp: tests/cpp/string.cpp as a function of fault_cpp. */
#include "fault/cpp/cpp.h"

#define main string_main
#include "../../cpp/string.cpp"
