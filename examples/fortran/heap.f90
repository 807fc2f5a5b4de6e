! heap.f90: the host's calls from Fortran 2003, over the shared library: a heap on a device, a block
! of it by a call of the simulated device, and how many are live.
!
!     heap [DEVICE]
program heap_example
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(c) :: wh_heap_options ! as in heap.h: zeros mean the default
    integer(c_int64_t) :: struct_bytes = 0, bytes = 0
    type(c_ptr) :: allocator = c_null_ptr, device = c_null_ptr, memory = c_null_ptr
    type(c_ptr) :: options = c_null_ptr
    integer(c_int64_t) :: reserve_bytes = 0
    type(c_ptr) :: source(3) = c_null_ptr, cuda_pool = c_null_ptr
  end type
  type, bind(c) :: wh_heap_call ! as in heap_calls.h; kind 0: malloc, 4: free
    integer(c_int32_t) :: kind = 0, unused = 0
    type(c_ptr) :: block = c_null_ptr
    integer(c_int64_t) :: bytes = 0, align = 0
  end type

  interface
    integer(c_int) function wh_device_open(device, spec, sim) bind(c)
      import
      type(c_ptr), intent(out) :: device
      character(kind=c_char), intent(in) :: spec(*)
      type(c_ptr), value :: sim
    end function
    subroutine wh_device_close(device) bind(c)
      import
      type(c_ptr), value :: device
    end subroutine
    integer(c_int) function wh_heap_create(heap, options) bind(c)
      import
      type(c_ptr), intent(out) :: heap
      type(wh_heap_options), intent(in) :: options
    end function
    integer(c_int) function wh_heap_destroy(heap) bind(c)
      import
      type(c_ptr), value :: heap
    end function
    integer(c_int) function wh_heap_make_calls(heap, calls, call_bytes, n) bind(c)
      import
      type(c_ptr), value :: heap
      type(wh_heap_call), intent(inout) :: calls(*)
      integer(c_size_t), value :: call_bytes
      integer(c_int32_t), value :: n
    end function
  end interface

  type(c_ptr) :: device, heap
  type(wh_heap_options) :: options
  type(wh_heap_call) :: calls(3)
  character(len=64) :: name
  integer :: i

  name = 'sim'
  if (command_argument_count() > 0) call get_command_argument(1, name)
  if (wh_device_open(device, trim(name)//c_null_char, c_null_ptr) /= 0) stop 77
  options%struct_bytes = c_sizeof(options)
  options%bytes = 1048576
  options%device = device
  if (wh_heap_create(heap, options) /= 0) stop 1
  calls%bytes = [16_c_int64_t, 1000_c_int64_t, 5000_c_int64_t] ! by three threads at once
  if (wh_heap_make_calls(heap, calls, c_sizeof(calls(1)), 3) /= 0) stop 2
  if (.not. all([(c_associated(calls(i)%block), i = 1, 3)])) stop 3
  calls%kind = 4
  if (wh_heap_make_calls(heap, calls, c_sizeof(calls(1)), 3) /= 0) stop 4
  if (wh_heap_destroy(heap) /= 0) stop 5
  call wh_device_close(device)
  print '(a)', 'three blocks, and back'
end program
