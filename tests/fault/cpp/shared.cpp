/* shared.cpp: tests/cpp/shared.cpp as a function of fault_cpp. */
#include "fault/cpp/cpp.h"

#define main shared_main
#include "../../cpp/shared.cpp"
